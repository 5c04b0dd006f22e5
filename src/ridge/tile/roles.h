// How the threads of a kernel share its work, and how its operands lie: words that a config is written in.
#pragma once

namespace ridge::tile {

// Of the groups of threads that multiply: all share one tile, or each owns every other tile, so that one multiplies
// while the other stores.
enum class Roles { cooperative, pingpong };

// Which axis of an operand is contiguous in memory: k, or the axis that it shares with the output.
enum class Major { k, mn };

}  // namespace ridge::tile
