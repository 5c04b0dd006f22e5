// Tag types that select the reduction of a row. This file is also compiled at run time, unlike tile.h.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

using Index = std::int64_t;

struct Max {};
struct Add {};
struct SumOfSquares {};  // only for kernels on rows (rows.h)

}  // namespace ridge::tile
