// Memory-bound kernels of `bench stream` and `bench repeats` on a CPU and on a device: chains of pointwise functions
// and row functions, with their results in f64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/ops/chain/problem.h"
#include "ridge/ops/rows/problem.h"

namespace ridge {

// y = function(function(… x)), or softmax or rmsnorm of rows. Array 0 is x, array 1 the gate or the weight if there is
// one, and the last array y.
struct VectorKernel {
  std::string name;                            // "affine", "cos_16", "softmax"
  DType dtype = DType::f32;                    // Every array has it
  std::int64_t columns = 0;                    // Length of the rows of softmax and rmsnorm; 0 for a chain
  bool is_affine = false;                      // 1.3 * x + 0.2 takes the place of x
  ops::ChainOp function = ops::ChainOp::load;  // relu, gelu, silu or cos; load: none
  int repeats = 1;                             // Number of applications of the function
  bool has_gate = false;                       // The result is multiplied by array 1
  bool has_weight = false;                     // rmsnorm has a weight per column

  int arrays_read() const { return has_gate ? 2 : 1; }  // From memory; one is written
  std::size_t array_count() const { return has_gate || has_weight ? 3 : 2; }
  double traffic_bytes(std::int64_t elements) const;  // Read and written
  double allowed_error() const;                       // Relative error that rounding explains
  ops::ChainProgram chain_program(std::int64_t elements) const;
  ops::RowProblem row_problem(std::int64_t elements) const;
};

// Call of a kernel that reads array `from` and writes array `to`.
struct KernelStep {
  VectorKernel kernel;
  std::size_t from, to;
};

VectorKernel cosine_kernel(int repeats);  // cos applied to f32 this many times

// Returns the kernels of this name, all if it is empty, or an error that lists the names.
Result<std::vector<VectorKernel>> select_kernels(std::vector<VectorKernel> kernels, const std::string& name);

struct KernelCheck {
  std::int64_t elements = 0;        // Number of elements of the result
  std::int64_t interval = 1 << 14;  // Elements of a checked interval, at least a row
  int intervals = 3;                // Distributed from the start to the end
  double min_scale = 0;             // Smaller results are compared relative to this
  std::function<Result<std::vector<double>>(std::size_t array, std::int64_t first, std::int64_t count)> read_values;
};
// Returns the largest relative error of the checked elements, or an error with element and both values.
Result<double> check_kernel(const VectorKernel& kernel, const KernelCheck& check);

}  // namespace ridge
