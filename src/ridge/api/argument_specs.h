// Inputs and outputs of a program as arrays: names, dtypes and shapes. The slices of a stack are passed as one array.
#pragma once

#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/program/program.h"

namespace ridge::api {

struct ArgumentSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Polynomial> extents;
  std::vector<int> tensors;  // Tensors in this array, contiguous: one, or the slices of a stack
};
std::vector<ArgumentSpec> input_specs(const Program& program);
// Returns the results with these names, in their order, or every output if there are none. Error: an unknown result.
Result<std::vector<ArgumentSpec>> output_specs(const Program& program, const std::vector<std::string>& requested);

// Returns for each input the index of its array in `given`. An array without a name is matched by its position. Errors:
// a missing, unknown or duplicate array.
Result<std::vector<std::size_t>> match_arrays(const std::vector<ArgumentSpec>& specs,
                                              const std::vector<ArrayType>& given);

// Returns the values of all dimensions, from `dims`, the arrays and the program's defaults. Array i belongs to input i.
// Errors: a dtype or number of axes that differs from the program; an extent below 1; a dimension with two values or
// none.
Result<Bindings> solve_dimensions(const Program& program, const std::vector<ArgumentSpec>& specs,
                                  const std::vector<ArrayType>& given, const Bindings& dims);

}  // namespace ridge::api
