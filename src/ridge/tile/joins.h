// What `reduce` joins a row by. Read by compilers at run time as well, which tile.h is not.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

using Index = std::int64_t;

struct Max {};
struct Add {};
struct Squares {};  // added; of rows

}  // namespace ridge::tile
