// What a program finds in memory before it runs: inputs from .npy files or random, everything else poisoned with NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ridge/measure/fill.h"
#include "ridge/plan/plan.h"

namespace ridge {

struct FillRequest {
  const Program& program;
  const Bindings& dims;                          // of every dimension
  const std::vector<Buffer>& buffers;            // of the plan: first those of the program's tensors
  const std::vector<Array>& arrays;              // the memory behind the first of them
  const std::map<std::string, std::string>& in;  // tensor -> .npy file
  std::uint64_t seed = 0;
  int threads = 1;
  std::function<void(double done, const std::string& tensor)> filling = {};
};

// Errors: a file that cannot be read or does not fit, no memory for a whole that is read in parts.
Status fill_inputs(const FillRequest& request);

// Whether the whole numbers of an input that points along a dimension, as a gather's, lie in it; of others nothing is
// asked. `dims`: of every dimension. Error: the first that does not.
Status check_indices(const Program& program, const Bindings& dims, int input, const Array& array);

std::vector<std::int64_t> extents(const Shape& shape);

}  // namespace ridge
