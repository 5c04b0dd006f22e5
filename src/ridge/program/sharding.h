// How the dimensions of an expression lie on the mesh. A dimension lies alike in its result and in every operand, so
// one that is split anywhere in the expression is split wherever the expression works along it.
#pragma once

#include <string>

#include "ridge/program/program.h"

namespace ridge {

// The mesh axes over which `axis` is split; empty: every device has it whole.
std::string split_over(const Program& program, const Expression& expression, const Axis& axis);

}  // namespace ridge
