// Loads of a product kernel on Hopper. In shared memory a tile that is contiguous along k consists of blocks of
// [rows][128 bytes], swizzled, and a tile that is contiguous along m or n of blocks of [k][128 bytes]; 128 bytes are 64
// elements of bf16. The copy engine loads each block as one box.
#pragma once

#include "ridge/base/block_scale.h"
#include "ridge/base/operand_type.h"
#include "ridge/tile/ring.h"
#include "ridge/tile/sm90/barrier.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/tile.h"

namespace ridge::tile::sm90 {

template <class T> inline constexpr int swizzle_elements = swizzle_bytes / static_cast<int>(sizeof(T));

template <class Kernel> struct ItemPosition {  // position of the work item
  int m0, n0, batch, rank;                     // `rank` is the block's rank in its cluster
  int row_end;                                 // end of the rows of D that may be written, in grouped products
  TILE_FN Row row() const { return {{m0, Kernel::config.m}}; }
  TILE_FN Col col() const { return {{n0, Kernel::config.n}}; }
};

template <class Along> inline constexpr bool along_rows = std::is_same_v<Along, Row>;
template <class Kernel, class Along> inline constexpr Major major_of =
    along_rows<Along> ? Kernel::config.a : Kernel::config.b;
// Number of blocks of a cluster that need the same tile; each loads a part and multicasts it.
template <class Kernel, class Along> inline constexpr int multicast_blocks =
    along_rows<Along> ? Kernel::config.cluster_n : Kernel::config.cluster_m;

// True if rows of A may arrive from other ranks while the kernel runs, or if the result is scattered (shared_rows.h).
template <class Kernel> inline constexpr bool gathers_rows = [] {
  if constexpr (requires { Kernel::config.can_gather_rows(); }) return Kernel::config.can_gather_rows();
  return false;
}();
template <class Kernel> inline constexpr bool scatters_rows = [] {
  if constexpr (requires { Kernel::config.can_scatter_rows(); }) return Kernel::config.can_scatter_rows();
  return false;
}();

template <class Kernel> inline constexpr bool loads_windows = [] {
  if constexpr (requires { Kernel::config.can_load_windows(); }) return Kernel::config.can_load_windows();
  return false;
}();

struct NoPeerRows {};
template <class Kernel> struct PeerRowMapsOf
    : std::conditional_t<gathers_rows<Kernel> || scatters_rows<Kernel>, PeerRowMaps, NoPeerRows> {};

template <class Kernel, LoadSubset subset> struct TileLoader : ItemPosition<Kernel> {
  std::uint32_t full;  // shared address of the full barrier of the slot to fill
  const PeerRowMapsOf<Kernel>* peer_rows;

  template <class Tile, class Along, bool is_constant>
  TILE_FN void load(Tile& tile, const GlobalView<Tile, Along, is_constant>& view, Along where, Range k) const {
    load(rows<0, Tile::rows>(tile), view, where, k);
  }

  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  TILE_FN void load(TileRows<first, count, Tile> part, const GlobalView<Box, Along, is_constant>& view, Along where,
                    Range k) const {
    static_assert(Box::rows == count && Box::cols == Tile::cols,
                  "load: a view is loaded into a tile of its own shape, or into as many rows of one");
    constexpr bool is_prefetched = is_constant != Kernel::config.swap;  // `swap` exchanges the operands
    if constexpr (subset != LoadSubset::all_operands && is_prefetched != (subset == LoadSubset::constants)) return;
    expect_bytes(full, count * Tile::cols * static_cast<int>(sizeof(typename Tile::type)));
    int along = static_cast<int>(where.begin);
    const int product = view.target.batched ? this->batch : 0;
    const int depth = static_cast<int>(k.begin);
    if constexpr (loads_windows<Kernel> && subset == LoadSubset::all_operands)
      if (view.target.walk.taps > 0) return load_taps<first, count, Along>(part.tile, view.target, along, depth);
    const CUtensorMap* map = &view.target.map;
    if constexpr (along_rows<Along> && gathers_rows<Kernel>)
      if (const GatheredRows& rows = peer_rows->gathered; rows.rows > 0) {
        if (depth % rows.cols == 0) wait_for_rows(rows, along, depth);
        if (rows.walk_position(along) < rows.shard_rows) {
          along = rows.walk_position(along);
          map = &peer_rows->own_shard;
        }
      }
    const MapAndPolicy from{map, view.target.cache_policy};
    if constexpr (major_of<Kernel, Along> == Major::k)
      load_k_major<first, count, Along>(part.tile, from, {depth, along, product});
    else
      load_mn_major<first, count, Along>(part.tile, from, {along, depth, product});
  }

 private:
  struct MapAndPolicy {
    const CUtensorMap* map;
    std::uint64_t policy;
  };

  TILE_FN static void wait_for_rows(const GatheredRows& rows, int row, int column) {
    const int number = rows.chunk_number(row, column) - rows.chunks_per_shard;
    if (number < 0) return;
    while (read_acquire_system(rows.arrived + number) == 0) {}
    fence_global_proxy();
  }

  template <int first, int count, class Along, class Tile>
  TILE_FN void load_k_major(Tile& tile, const MapAndPolicy& from, BoxOrigin c) const {
    constexpr int blocks = multicast_blocks<Kernel, Along>, mine = count / blocks;
    constexpr int swizzled = swizzle_elements<typename Tile::type>;
    static_assert(Tile::cols % swizzled == 0 && mine % 8 == 0 && first % 8 == 0 && mine <= 256,
                  "load: a tile needs columns x128 bytes and, for each block that shares it, rows x8 up to 256");
    const int offset = multicast_rank<Along>() * mine;
#pragma unroll
    for (int j = 0; j < Tile::cols / swizzled; ++j)
      load_for_cluster<Along>(shared_address(tile.data + (j * Tile::rows + first + offset) * swizzled), from,
                              {c.x + j * swizzled, c.y + offset, c.batch});
  }

  // Loads a tile of a convolution: of the pixels, which are rows of the result, or of the weights.
  template <int first, int count, class Along, class Tile>
  TILE_FN void load_taps(Tile& tile, const TargetInput& from, int along, int depth) const {
    constexpr int mine = count / multicast_blocks<Kernel, Along>, swizzled = swizzle_elements<typename Tile::type>;
    constexpr bool are_pixels = along_rows<Along> != Kernel::config.swap;
    const TapWalk& walk = from.walk;
    along += multicast_rank<Along>() * mine;
    const std::uint32_t to = shared_address(tile.data + (first + multicast_rank<Along>() * mine) * swizzled);
#pragma unroll 1
    for (int j = 0; j < Tile::cols / swizzled; ++j) {
      const int k = depth + j * swizzled, tap = walk.depth.quotient(k),
                channel = k - tap * static_cast<int>(walk.depth.value);
      const std::uint32_t block = to + j * Tile::rows * swizzle_bytes;
      if constexpr (are_pixels)
        load_window_for_cluster<Along>(block, from, find_window(walk, along, tap, channel));
      else
        load_for_cluster<Along>(block, {&from.map, from.cache_policy},
                                {channel, along + this->batch * walk.group_rows, tap});
    }
  }

  // Returns the box of the input that the output pixels from `pixel` on read for a tap. A stage may reach beyond the
  // last tap; channels that do not exist read as zeros.
  TILE_FN WindowOrigin find_window(const TapWalk& walk, int pixel, int tap, int channel) const {
    WindowOrigin out;
    out.channel = tap < walk.taps ? channel + this->batch * walk.channels : (1 << 30);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int axis = 2 - i, line = walk.out[axis].quotient(pixel), taps_left = walk.kernel[axis].quotient(tap);
      const int position = pixel - line * static_cast<int>(walk.out[axis].value),
                element = tap - taps_left * static_cast<int>(walk.kernel[axis].value);
      out.pixel[i] = position * walk.stride[axis] - walk.padding[axis];
      out.offset[i] = static_cast<std::uint16_t>(element * walk.dilation[axis]);
      pixel = line;
      tap = taps_left;
    }
    out.image = pixel;
    return out;
  }

  template <int first, int count, class Along, class Tile>
  TILE_FN void load_mn_major(Tile& tile, const MapAndPolicy& from, BoxOrigin c) const {
    constexpr int blocks = multicast_blocks<Kernel, Along>, swizzled = swizzle_elements<typename Tile::type>;
    constexpr bool groups =
        count / blocks % swizzled == 0;  // true if each block loads some groups of rows, false if a part of k
    constexpr int mine = groups ? count / blocks : count, depth = groups ? Tile::cols : Tile::cols / blocks;
    static_assert(
        mine % swizzled == 0 && first % swizzled == 0 && depth % 8 == 0 && depth <= 256,
        "load: a tile that is contiguous along the output needs rows x128 bytes and, for each block that shares it, "
        "columns x8 up to 256");
    const int row = groups ? multicast_rank<Along>() * mine : 0, k = groups ? 0 : multicast_rank<Along>() * depth;
#pragma unroll
    for (int g = 0; g < mine / swizzled; ++g)
      load_for_cluster<Along>(shared_address(tile.data + (first + row + g * swizzled) * Tile::cols + k * swizzled),
                              from, {c.x + row + g * swizzled, c.y + k, c.batch});
  }

  template <class Along>
  TILE_FN int multicast_rank() const {  // index of this block among the blocks that need the same tile
    if constexpr (multicast_blocks<Kernel, Along> == 1) return 0;
    return along_rows<Along> ? this->rank / Kernel::config.cluster_m : this->rank % Kernel::config.cluster_m;
  }
  // Returns the bit mask of the blocks that need the same tile. The ranks of a cluster advance along m first.
  template <class Along> TILE_FN std::uint16_t multicast_mask() const {
    constexpr int m = Kernel::config.cluster_m, n = Kernel::config.cluster_n;
    constexpr int along_n = ((1 << m * n) - 1) / ((1 << m) - 1), along_m = (1 << m) - 1;
    return static_cast<std::uint16_t>(along_rows<Along> ? along_n << this->rank % m : along_m << this->rank / m * m);
  }
  template <class Along>
  TILE_FN void load_for_cluster(std::uint32_t to, const MapAndPolicy& from, BoxOrigin box) const {
    if constexpr (multicast_blocks<Kernel, Along> == 1)
      load_box(to, from.map, from.policy, box, full);
    else
      load_box_multicast(to, from.map, from.policy, box, full, multicast_mask<Along>());
  }
  template <class Along>
  TILE_FN void load_window_for_cluster(std::uint32_t to, const TargetInput& from, const WindowOrigin& box) const {
    const bool has_three_axes = from.walk.has_three_axes;
    if constexpr (multicast_blocks<Kernel, Along> == 1)
      load_window(to, &from.map, from.cache_policy, box, full, has_three_axes);
    else
      load_window_multicast(to, &from.map, from.cache_policy, box, full, has_three_axes, multicast_mask<Along>());
  }
};

}  // namespace ridge::tile::sm90
