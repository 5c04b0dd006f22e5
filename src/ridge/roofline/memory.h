// Device memory of a program: bytes of every tensor on one device and on all devices, the peak, and the largest sizes
// that fit. Statements run in order. Inputs are always live, a result is live from its statement to its last reader, an
// output from its statement to the end. A result that replaces an input takes no memory of its own.
//   x: bf16[B, D]   w: bf16[D, F]   y: bf16[B, F] = x * w
//   peak at y: 2*B*D + 2*D*F + 2*B*F;  B <= (capacity - 2*D*F)/(2*D + 2*F) fits
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/program/program.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/results.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct TensorMemory {
  std::string name;
  DType dtype = DType::f32;
  TensorRole role = TensorRole::input;
  InputUse use = InputUse::activation;  // Use of an input
  Polynomial bytes_formula;             // Bytes on one device
  std::optional<double> device_bytes = {},
                        all_bytes = {};  // Bytes on one device and on all; nullopt if a dimension has no value
  std::optional<double> copies = {};     // Bytes on all devices / bytes of the tensor
};

struct MemoryUse {
  std::vector<TensorMemory> tensors = {};
  std::int64_t devices = 1;
  // Parameters are the inputs without a batch dimension (program/weights.h).
  Polynomial parameters = {};  // Number of elements over all devices, replicas counted once
  std::optional<double> parameter_count = {}, parameter_bytes = {};
  std::vector<std::string> batch_dims = {};  // Dimensions that parameters lack, such as "B", "S", "T"
  std::int64_t layers = 1;                   // Number of layers; each has its own parameters, caches and state
  std::string peak_statement = {};           // Result of the statement at which memory use peaks
  Polynomial peak = {};                      // Bytes on one device at the peak
  std::optional<double> peak_bytes = {};
  std::string level = {};               // "hbm"
  std::optional<double> capacity = {};  // Bytes; nullopt if not on record
  // Largest value of each dimension that fits, the others fixed: B <= 73,000. Relation never: not even 1 fits.
  std::vector<Threshold> capacity_thresholds = {};
  std::optional<double> min_chips =
      {};  // Number of chips whose memory together holds the peak, each tensor stored once
  // Results that could replace inputs, as they overwrite them last and element by element, and the peak if they did.
  struct Replacement {
    std::string result, input;
  };
  std::vector<Replacement> possible_replacements = {};
  std::optional<double> replaced_peak_bytes = {};
};

// Analyzes memory use at `sizes`, the values of dimensions and mesh axes; `order` lists the dimensions for formulas.
// `groups` lists statements that run as one kernel: its outputs are live from its start, its intermediates take no
// memory. With several `layers`, all have their inputs in memory, except activations, and run one after another.
MemoryUse analyze_memory(const Program& program, const Machine& machine, const Bindings& sizes,
                         const ThresholdOptions& options, const std::vector<std::string>& order,
                         const KernelGroups& groups = {}, std::int64_t layers = 1);

// Returns the bytes that are live while each kernel of `groups` runs, as formulas.
std::vector<Polynomial> list_live_bytes(const Program& program, const KernelGroups& groups);

}  // namespace ridge
