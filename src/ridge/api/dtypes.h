// What --dtype means to a program: the dtype of tensors that name none. Internal to api/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/program/load.h"

namespace ridge::api {

// "bf16 int8": the dtypes of the inputs.
std::string dtypes_of(const Program& program);

// The program, read with that dtype; none: bf16. Errors: of the program; of kind usage: a dtype was asked for and no
// tensor takes it, since all of them name their own.
Result<LoadedProgram> load_in(const std::string& program, const std::optional<DType>& dtype,
                              const Bindings& sizes = {});
// The same program in each of several dtypes.
Result<std::vector<Program>> in_dtypes(const Program& program, const std::vector<DType>& dtypes,
                                       const Bindings& sizes = {});

}  // namespace ridge::api
