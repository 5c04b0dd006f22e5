// Dtypes of tensors that declare none (option --dtype).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/program/load.h"

namespace ridge::api {

// Returns the distinct dtypes of the inputs, such as "bf16 int8".
std::string input_dtypes(const Program& program);

// Loads a program; tensors that declare no dtype get `dtype` (default bf16). Errors: of the program; of kind usage, if
// a dtype is given and every tensor declares its own.
Result<LoadedProgram> load_with_dtype(const std::string& program, const std::optional<DType>& dtype,
                                      const Bindings& sizes = {});
// Parses the program again with each of these dtypes.
Result<std::vector<Program>> parse_with_dtypes(const Program& program, const std::vector<DType>& dtypes,
                                               const Bindings& sizes = {});

}  // namespace ridge::api
