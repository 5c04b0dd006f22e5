// A limit of Hopper that host code needs, too.
#pragma once

namespace ridge::tile {

inline constexpr int max_shared_bytes = 227 * 1024;  // shared memory of a block

}  // namespace ridge::tile
