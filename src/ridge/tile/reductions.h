// Names of the reductions of a row. This file is also compiled at run time, tile.h is not.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

using Index = std::int64_t;

struct Max {};
struct Add {};
struct Squares {};  // sum of squares, for rows only

}  // namespace ridge::tile
