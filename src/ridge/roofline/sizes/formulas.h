// A program's counts as formulas of its sizes, for evaluation elsewhere, such as the page with sliders (report/page).
// They do not depend on a machine; communication stays a list of transfers.
//   dims B, D = 1024, F = 4*D        sizes: B and D independent, F = 4*D
//   s = q * k under a causal mask    sizes: pairs, the number of unmasked pairs
//   bf16[B, D_X] with X = 4          sizes: ceil(D/4), the largest shard
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/split.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Meaning of a symbol in the counts: one of the four members, or an independent size without a value.
struct SizeFormula {
  std::string name;
  std::optional<std::int64_t> value = {};  // Value of an independent size: given, or its default
  std::optional<Polynomial> formula = {};  // Formula in preceding sizes
  std::optional<DimShard> shard = {};      // Shard of a preceding size
  std::optional<IndexMask> mask = {};      // Mask whose unmasked pairs it counts
};

struct TensorFormula {
  std::string name;
  Polynomial bytes;         // Bytes on one device
  int begin = -1, end = 0;  // First and last statement of its live range (live_ranges.h)
};

// Statements that share a kernel.
struct KernelFormula {
  std::vector<int> statements;
  Polynomial bytes;  // Bytes that it moves
};

struct Formulas {
  std::vector<SizeFormula> sizes;  // Each one depends only on preceding ones
  std::vector<Work> statements;    // Communication is in `transfers`, because no machine has chosen links
  std::vector<TensorFormula> tensors;
  std::vector<KernelFormula> kernels;       // One per statement
  std::optional<KernelFormula> fused = {};  // All statements as one kernel; nullopt if there is no intermediate
};

// Errors: an invalid value of a dimension, a mesh axis without a size.
Result<Formulas> make_formulas(const Program& program, const Bindings& given,
                               const std::optional<DimensionSplit>& split = {});

}  // namespace ridge
