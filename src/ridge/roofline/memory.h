// What a program holds in memory: every tensor on a device and on all of them, what is there at once when it is most,
// and whether that fits. Statements run in order; inputs stay, a result is held from where it is made until where it is
// last read, an output from there on.
//   x: bf16[B, D]   w: bf16[D, F]   y: bf16[B, F] = x * w      2*B*D + 2*D*F + 2*B*F at y; B <= (capacity - 2*D*F)/(2*D
//   + 2*F) fits
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/program/program.h"
#include "ridge/roofline/answers.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct TensorMemory {
  std::string name;
  DType dtype = DType::f32;
  Role role = Role::input;
  bool parameter = false;
  Polynomial device;  // B on one device
  std::optional<double> device_bytes = {},
                        all_bytes = {};  // on one device, on all; null where a dimension has no value
  std::optional<double> copies = {};     // of all of it, over the mesh
};

struct Memory {
  std::vector<TensorMemory> tensors = {};
  std::int64_t devices = 1;
  // Inputs that lack every dimension of tokens: weights.
  Polynomial parameters = {};  // elements, of all devices together, each once
  std::optional<double> parameter_count = {}, parameter_bytes = {};
  // Every dimension of the first input but its last, where that one holds tokens; and of a cache of keys and values,
  // which no token of that input reaches, the places that a softmax weighs: "B", "S", "T".
  std::vector<std::string> token_dims = {};
  std::string peak_at = {};  // the statement's result at which most is held
  Polynomial peak = {};      // B on one device then
  std::optional<double> peak_bytes = {};
  std::string level = {};               // "hbm"
  std::optional<double> capacity = {};  // B; null: not on record
  // The largest value of a dimension that fits, the others held: B <= 73,000. relation never: not even 1.
  std::vector<Threshold> fits = {};
  std::optional<double> chips = {};  // whose memories together hold what is held at once, each tensor once
};

// `sizes` holds the dimensions' values and the mesh's; `order` the dimensions, for formulas. `groups`: statements that
// run as one kernel, at whose beginning all that it writes is there and for whose intermediates nothing is.
Memory memory_of(const Program& program, const Machine& machine, const Bindings& sizes, const Ways& ways,
                 const std::vector<std::string>& order, const Groups& groups = {});

}  // namespace ridge
