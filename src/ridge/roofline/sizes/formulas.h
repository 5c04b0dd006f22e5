// A program's counts as formulas of its sizes, for whoever evaluates them elsewhere: the page that moves sizes with
// sliders (report/page). Nothing here hangs on a machine; what is sent stays a list of transfers.
//   dims B, D = 1024, F = 4*D        sizes: B, D free; F follows 4*D
//   s = q * k under a causal mask    sizes: pairs, of which the mask lets so many through
//   bf16[B, D_X] with X = 4          sizes: ceil(D/4), the largest part
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

// What a symbol of the counts stands for: one of the four, or a size of its own without a value.
struct SizeFormula {
  std::string name;
  std::optional<std::int64_t> value = {};  // of its own: as it was given, or its default
  std::optional<Polynomial> follows = {};  // in those before it
  std::optional<PartOf> part = {};         // of one of those before it
  std::optional<Mask> mask = {};           // the pairs that it lets through
};

struct TensorFormula {
  std::string name;
  Polynomial bytes;         // on a device
  int begin = -1, end = 0;  // statements between which it is held (lives.h)
};

// Statements that share a kernel.
struct KernelFormula {
  std::vector<int> statements;
  Polynomial bytes;  // B that it moves
};

struct Formulas {
  std::vector<SizeFormula> sizes;  // each in terms of those before it
  std::vector<Work> statements;    // what they send stands in `transfers`: no machine says yet over which links
  std::vector<TensorFormula> tensors;
  std::vector<KernelFormula> kernels;       // one a statement
  std::optional<KernelFormula> fused = {};  // all of them; none: there is no intermediate
};

// Errors: of a dimension that is given, a mesh axis without a size.
Result<Formulas> formulas_of(const Program& program, const Bindings& given, const std::optional<Split>& cut = {});

}  // namespace ridge
