// What a program asks of its caller: arrays by name, a stack where its parts are inputs; and the sizes that arrays give
// to dimensions. Internal to api/.
#pragma once

#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/program/program.h"

namespace ridge::api {

struct Asked {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Polynomial> extents;
  std::vector<int> tensors;  // that lie in it, one behind the other: itself, or a stack's parts
};
std::vector<Asked> inputs_asked(const Program& program);
// The results by these names, in their order; none: every output. Error: no statement writes it.
Result<std::vector<Asked>> outputs_asked(const Program& program, const std::vector<std::string>& wanted);

// For each of `asked` the index into `given` of the array for it; one without a name is for the input at its place.
// Errors: an input that none is for, an array for none, two for one.
Result<std::vector<std::size_t>> matched(const std::vector<Asked>& asked, const std::vector<ArrayType>& given);

// Every dimension with its value: `dims`, what the arrays say, then the program's defaults. `given[i]` is for asked[i].
// Errors: another dtype or number of axes than the program's; an extent below 1; two values for one dimension; none.
Result<Bindings> sizes_of(const Program& program, const std::vector<Asked>& asked, const std::vector<ArrayType>& given,
                          const Bindings& dims);

}  // namespace ridge::api
