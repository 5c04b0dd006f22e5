// Options of a kernel config: division of work among thread groups, and layout of the operands.
#pragma once

namespace ridge::tile {

// Division of work among the groups of threads that multiply. cooperative: all groups work on the same tile. pingpong:
// two groups process alternate tiles, so that one multiplies while the other stores.
enum class Roles { cooperative, pingpong };

// The contiguous axis of an operand: k, or the axis that the operand shares with the output (m or n).
enum class Major { k, mn };

}  // namespace ridge::tile
