// Options of a kernel config: how the threads of a kernel divide its work, and the layout of its operands.
#pragma once

namespace ridge::tile {

// Division of work among the groups of threads that multiply: all work on one tile, or each owns every other tile, so
// that one multiplies while the other stores.
enum class Roles { cooperative, pingpong };

// The axis of an operand that is contiguous in memory: k, or the axis that it has in common with the output.
enum class Major { k, mn };

}  // namespace ridge::tile
