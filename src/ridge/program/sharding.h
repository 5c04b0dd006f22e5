// Sharding of an expression's dimensions. A dimension has the same sharding in the result and in every operand, so one
// that is sharded in one of them is sharded in the whole expression.
#pragma once

#include <string>

#include "ridge/program/program.h"

namespace ridge {

// Returns the mesh axes over which `axis` is split, or "" if it is replicated.
std::string find_mesh_axes(const Program& program, const Expression& expression, const Axis& axis);

}  // namespace ridge
