// What a program finds in memory before it runs: inputs from .npy files or random, everything else poisoned with NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
// One of them alone, which is no part of a stack that has a file; of `arrays` this one's memory is enough.
Status fill_input(const FillRequest& request, int tensor);

// Whether the whole numbers of an input that points along a dimension, as a gather's, lie in it; of others nothing is
// asked. `dims`: of every dimension. Error: the first that does not.
Status check_indices(const Program& program, const Bindings& dims, int input, const Array& array);

std::vector<std::int64_t> extents(const Shape& shape);

// The files that a run reads inputs from and writes results into, by the tensors' names.
using Files = std::map<std::string, std::string>;
std::optional<int> tensor_named(const Program& program, const std::string& name);
// Errors: a name that is no input of the program's, or no result; a part of a stack, which is read as a whole.
Status check_files(const Program& program, const Files& in, const Files& out);

}  // namespace ridge
