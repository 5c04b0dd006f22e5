// Fills a program's memory before it runs: inputs from .npy files or random, everything else NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/plan/plan.h"
#include "ridge/run/memory.h"

namespace ridge {

struct FillRequest {
  const Program& program;
  const Bindings& dims;                          // sizes of every dimension
  const std::vector<PlanBuffer>& buffers;        // the plan's buffers: first those of the program's tensors
  const std::vector<Array>& arrays;              // memory of the first buffers
  const std::map<std::string, std::string>& in;  // tensor -> .npy file
  std::uint64_t seed = 0;
  int threads = 1;
  std::function<void(double done, const std::string& tensor)> progress = {};
};

// Errors: a file that cannot be read or does not fit, no memory to read a stack of tensors.
Status fill_inputs(const FillRequest& request);
// Fills one input, which must not be part of a stack that has a file. Only its entry of `arrays` needs memory.
Status fill_one_input(const FillRequest& request, int tensor);

// Returns an error for the first index outside its dimension if `input` holds indices, such as a gather's. Other inputs
// are not checked. `dims` has the size of every dimension.
Status check_indices(const Program& program, const Bindings& dims, int input, const Array& array);

std::vector<std::int64_t> shape_extents(const Shape& shape);

// Files of inputs or results, by the tensors' names.
using FilePaths = std::map<std::string, std::string>;
std::optional<int> find_tensor(const Program& program, const std::string& name);
// Errors: a name that is not an input, or not a result; a part of a stack, which only its stack's file can supply.
Status check_file_names(const Program& program, const FilePaths& in, const FilePaths& out);

}  // namespace ridge
