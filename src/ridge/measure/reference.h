// The reference implementation: evaluates selected elements of a statement's result in fp64, directly from the
// statement and its stored operands. It is slow and simple, and independent of the lowering and the kernels that it
// checks. Each value comes with the largest error that a correct f32 computation may have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/run/memory.h"

namespace ridge {

struct Expected {
  double value = 0;
  double scale = 0;  // reference size of errors: |A||B| for a contraction; 0 selects max(|value|, rms)
  double bound = 0;  // largest allowed absolute error; ignored if value is not finite
  // The exact value where `value` was limited to the dtype's range, as int8 and nvfp4 do.
  std::optional<double> before_limit = {};
};

// Allowed error of a kernel's gelu and gelu_tanh of x: `relative_to_argument` * |x|, for gelu plus `relative_to_gelu` *
// (1 + x*x/2) * |gelu|. With `exact_limits`, these and silu return -0 at -inf, else NaN as x * Phi(x) does.
struct GeluTolerance {
  double relative_to_argument = 0, relative_to_gelu = 0;
  bool exact_limits = true;
};

struct Reference {
  const Program& program;
  const Bindings& dims;        // sizes of every dimension
  std::vector<Array> tensors;  // memory of Program::tensors
  bool random_data = true;     // rounding errors of random data grow like a random walk, others linearly
  int threads = 1;
  // Statements of one kernel, sorted. Results that one of them passes to another are recomputed in fp64, because the
  // kernel does not round them to the stored dtype.
  std::vector<int> kernel_statements = {};
  GeluTolerance gelu = {};       // tolerance of that kernel
  bool on_tensor_cores = false;  // true if a device multiplies, which rounds sums of tf32 and of 8-bit floats

  // Evaluates the elements `indices` (flat, row-major) of the statement's result.
  std::vector<Expected> evaluate_elements(const Statement& statement, const std::vector<std::int64_t>& indices) const;
  // Returns the expression that computes this tensor inside the kernel; nullopt if it is stored or a sum of products.
  std::optional<Expression> find_kernel_expression(int tensor) const;
  // Returns how many of `requested` elements can be evaluated in about a second.
  std::int64_t max_affordable_elements(const Statement& statement, std::int64_t requested) const;
};

// Returns at least `requested` element indices: all if there are no more, else one chosen by the seed from each of
// `requested` equal intervals, plus the corners of the index space.
std::vector<std::int64_t> sample_indices(const std::vector<std::int64_t>& extents, std::int64_t requested,
                                         std::uint64_t seed);

// Returns the largest relative rounding error of this dtype; 0 for integers.
double unit_roundoff(DType dtype);

}  // namespace ridge
