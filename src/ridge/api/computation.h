// Internals of `Computation`, for CPUs and devices, and checks of its arrays.
#pragma once

#include <mutex>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/compute.h"
#include "ridge/plan/plan.h"
#include "ridge/program/program.h"
#include "ridge/run/launches.h"
#include "ridge/run/memory.h"

namespace ridge::api {

// Location of a buffer of the plan: an array of the caller, the scratch memory, or an array of index values.
struct BufferLocation {
  enum class Space { none, input, output, scratch, indices } space = Space::none;
  std::size_t index = 0;    // Index of the array
  std::int64_t offset = 0;  // Bytes from its start
};

// Part of an input that is misaligned for kernels; it is copied to the scratch memory before the first step.
struct MisalignedTensor {
  std::size_t input = 0;
  std::int64_t source_offset = 0, scratch_offset = 0, bytes = 0;
};

struct DeviceComputation {
  int number = 0;
  DeviceLaunches launches;
  std::int64_t workspace_bytes = 0;           // Part of the scratch memory, at its start
  std::vector<std::byte*> index_values = {};  // Index values in device memory; never freed
};

}  // namespace ridge::api

namespace ridge {

struct Computation::Impl {
  Program program;
  Bindings dims;
  Plan plan;  // On a device, moved into its launches
  std::vector<ArrayType> inputs, outputs;
  std::vector<std::vector<int>> tensors;       // Tensors of each input, contiguous in its array
  std::vector<int> results;                    // Tensor of each output
  std::vector<api::BufferLocation> locations;  // One for each of Plan::buffers
  std::vector<api::MisalignedTensor> misaligned;
  std::vector<std::vector<float>> index_values;
  std::int64_t scratch_bytes = 0;
  std::optional<api::DeviceComputation> device;
  // Scratch memory of finished CPU calls, for reuse by the next; large ones are freed instead.
  mutable std::mutex mutex;
  mutable std::vector<ArrayStorage> free_scratch;

  std::optional<ArrayStorage> acquire_scratch() const;
  void release_scratch(ArrayStorage scratch) const;
};

}  // namespace ridge

namespace ridge::api {

// Checks that the number and types of arrays match the plan, and that outputs are row-major and do not overlap others.
Status check_operands(const Computation::Impl& impl, std::span<const ArrayView> inputs,
                      std::span<const ArrayView> outputs);

// Checks that kernels support each step of the plan; `unsupported_reason` returns the reason if not.
Status check_kernels(const Computation::Impl& impl, Reason (*unsupported_reason)(const PlanStep&));

// Chooses each buffer's location: the caller's arrays if possible, else scratch memory, which grows at its end.
struct BufferPlacementOptions {
  std::int64_t scratch_alignment = 1;  // Bytes, of buffers in the scratch memory
  std::int64_t input_alignment = 1;    // Bytes, of tensors in an input; misaligned ones are copied
};
void place_buffers(Computation::Impl& impl, const BufferPlacementOptions& options);

// Plans for a device and chooses its kernels' launches. Errors: an unknown device number; an unsupported statement.
Status plan_on_device(Computation::Impl& impl, const FuseOptions& fuse_options, int device);

}  // namespace ridge::api
