// Elementwise functions that config files name.
#pragma once

#include <string>

#include "ridge/base/result.h"

namespace ridge::model {

// Returns the function of an operand {0} in the notation, "silu({0})". `model` is named in the error. Errors: a name
// that is not known.
Result<std::string> find_activation(const std::string& name, const std::string& model);

}  // namespace ridge::model
