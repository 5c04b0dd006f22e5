// What a Computation is made of, on a CPU and on a device, and what both ask of its arrays. Internal to api/.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/measure/device/launches.h"
#include "ridge/measure/memory.h"
#include "ridge/plan/plan.h"
#include "ridge/program/program.h"

namespace ridge::api {

// Where a buffer of the plan lies: in an array of the caller's, in the scratch, or among the counts.
struct Place {
  enum class In { nowhere, input, output, scratch, counts } in = In::nowhere;
  std::size_t index = 0;    // of the array, or into the counts
  std::int64_t offset = 0;  // bytes
};

// A part of an input that a kernel would find off its alignment: copied to the scratch before the first step.
struct MovedPart {
  std::size_t input = 0;
  std::int64_t from = 0, to = 0, bytes = 0;
};

struct OnDevice {
  int number = 0;
  DeviceLaunches launches;
  std::int64_t workspace_bytes = 0;     // at the scratch's beginning
  std::vector<std::byte*> counts = {};  // in the device's memory, to the end of the process
};

}  // namespace ridge::api

namespace ridge {

struct Computation::Parts {
  Program program;
  Bindings dims;
  Plan plan;  // of a device: its launches' own
  std::vector<ArrayType> inputs, outputs;
  std::vector<std::vector<int>> tensors;  // of each input: what lies in it, one behind the other
  std::vector<int> results;               // of each output: its tensor
  std::vector<api::Place> places;         // of Plan::buffers
  std::vector<api::MovedPart> moved;
  std::vector<std::vector<float>> counts;
  std::int64_t scratch_bytes = 0;
  std::optional<api::OnDevice> device;
  // Scratch of calls on a CPU that have returned, for the next one; where it is large, the system has it back.
  mutable std::mutex mutex;
  mutable std::vector<ArrayStorage> free;

  std::optional<ArrayStorage> take_scratch() const;
  void give_back(ArrayStorage scratch) const;
};

}  // namespace ridge

namespace ridge::api {

// As many arrays as planned for, of those types; outputs that are row-major and share memory with nothing.
Status check_operands(const Computation::Parts& parts, std::span<const ArrayView> inputs,
                      std::span<const ArrayView> outputs);

// That kernels run each step of the plan; `refuse` says why one does not.
Status check_kernels(const Computation::Parts& parts, std::optional<std::string> (*refuse)(const Step&));

// Where each buffer lies: the caller's arrays first, the rest in one piece of scratch behind what it holds already.
struct Placing {
  std::int64_t alignment = 1;  // of what lies in the scratch
  std::int64_t parts = 1;      // of an input's parts; those that are off it are moved
};
void place(Computation::Parts& parts, const Placing& how);

// Plans for a device and chooses how its kernels run. Errors: no device of that number; what its kernels do not do.
Status plan_on_device(Computation::Parts& parts, const FuseOptions& how, int device);

}  // namespace ridge::api
