// Operations of a product kernel on Hopper: the producer loads, consumers multiply and store. In shared memory a tile
// that is contiguous along k consists of blocks of [rows][128 bytes], swizzled, and a tile that is contiguous along m
// or n of blocks of [k][128 bytes]; 128 bytes are 64 elements of bf16. The copy engine loads each block as one box.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/sm90/epilogue.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/sm90/wgmma.h"

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
    const int depth = static_cast<int>(k.begin), product = view.target.batched ? this->batch : 0;
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

TILE_FN void store_matrix4(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
TILE_FN void store_matrix4_transposed(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                      std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
TILE_FN void store_matrix2_transposed(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

// A group processes its part of a tile in epilogue steps of 64 rows x 16 columns, in the order of the registers.
template <class Kernel> inline constexpr int steps_across = (Kernel::config.n + 15) / 16;
template <class Kernel> inline constexpr int epilogue_steps_of = Kernel::config.epilogue_steps();
struct RegisterRange {
  int first, count;
};
template <class Kernel> TILE_FN constexpr RegisterRange step_registers(int step) {
  constexpr int n = Kernel::config.n;
  const int across = step % steps_across<Kernel>;
  return {step / steps_across<Kernel> * (n / 2) + across * 8, (across + 1) * 16 <= n ? 8 : n % 16 / 2};
}
struct EpilogueStepRange {
  int first, end;
};

template <class Kernel> struct TileConsumer : ItemPosition<Kernel> {
  int row_part;           // index of this consumer's part of the tile's rows
  int id;                 // number of this consumer in the block
  std::uint8_t* staging;  // this consumer's output buffers
  const PeerRowMapsOf<Kernel>* peer_rows;
  int buffer = 0;
  EpilogueStepRange epilogue_steps{0,
                                   epilogue_steps_of<Kernel>};  // steps to store; fewer if other blocks store the rest

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + id, 128); }
  template <int left> TILE_FN void wait_for_store_reads() const { sm90::wait_for_store_reads<left>(); }
  TILE_FN void fence_shared_proxy() const { sm90::fence_shared_proxy(); }
  TILE_FN void commit_stores() const { sm90::commit_stores(); }
  TILE_FN void next_buffer() { buffer = buffer + 1 == Kernel::config.staging ? 0 : buffer + 1; }

  template <int m, int n, int warpgroups_per_tile, class A, class B>
  TILE_FN void mma(Accumulator<m, n, warpgroups_per_tile>& acc, const A& a, Transposed<B> b) const {
    static_assert(std::is_same_v<typename A::type, typename B::type>, "mma: operands of one type");
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(m % (64 * warpgroups_per_tile) == 0, "mma: each consumer owns whole groups of 64 rows");
    constexpr int mine = m / warpgroups_per_tile;
    using T = typename A::type;
    constexpr Major of_a = Kernel::config.a, of_b = Kernel::config.b;
    constexpr int group = A::cols * swizzle_bytes;                          // bytes of a [k][128 bytes] block
    constexpr int a_rows = of_a == Major::k ? 64 * row_units : group / 16;  // stride of 64 rows, in descriptor units
    const std::uint64_t from_a = make_descriptor<of_a>(shared_address(a.data), group) + row_part * (mine / 64) * a_rows;
    const std::uint64_t from_b = make_descriptor<of_b>(shared_address(b.tile.data), group);
#pragma unroll
    for (int k = 0; k < A::cols / OperandType<T>::k; ++k) {
      const int step_a = step_units<T, of_a>(k, m), step_b = step_units<T, of_b>(k, n);
#pragma unroll
      for (int i = 0; i < mine / 64; ++i)
        mma_64<n, T, of_a, of_b>(acc.v + i * (n / 2), from_a + step_a + i * a_rows, from_b + step_b,
                                 k == 0 ? static_cast<int>(acc.is_written) : 1);
    }
    acc.is_written = true;
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc, Row row,
                     Col col) {
    const int first = static_cast<int>(row.begin) + row_part * (m / warpgroups_per_tile),
              column = static_cast<int>(col.begin);
    if (view.target.stores_in_bulk && epilogue_steps.end - epilogue_steps.first == epilogue_steps_of<Kernel> &&
        is_in_group(first, column, m / warpgroups_per_tile)) {
      store_bulk(view, acc, first, column);
      if constexpr (scatters_rows<Kernel>)
        if (leads()) signal_stored_chunks(view, m / warpgroups_per_tile, first, column);
    } else {
      wait_for_buffers<Kernel>(*this);
      store_with_epilogue(view, acc, first, column);
    }
  }
  // Stores the rounded sums in bulk, for kernels without an epilogue.
  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_rounded(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc,
                             Row row, Col col) {
    store_bulk(view, acc, static_cast<int>(row.begin) + row_part * (m / warpgroups_per_tile),
               static_cast<int>(col.begin));
  }

 private:
  static constexpr bool swap = Kernel::config.swap;

  // True if all rows of this consumer's part of a tile are in one group of a grouped product.
  TILE_FN bool is_in_group(int row, int col, int high) const {
    if constexpr (is_grouped<Kernel>) return (swap ? col + Kernel::config.n : row + high) <= this->row_end;
    return true;
  }
  struct OutputBounds {
    Index rows, cols;
  };
  // Returns the rows and columns of D that may be written.
  template <class View> TILE_FN decltype(auto) output_bounds(const View& view) const {
    if constexpr (is_grouped<Kernel>)
      return OutputBounds{this->row_end, view.cols};
    else
      return (view);
  }

  // Operations for a scattered result (shared_rows.h), called by the consumer's first thread, which stores. A
  // consumer's part of a tile belongs to one or two chunks, side by side.
  template <class View> TILE_FN static int column_end(const View& view, int col) {
    const int cols = static_cast<int>(view.cols);
    return cols - col < Kernel::config.n ? cols : col + Kernel::config.n;
  }
  template <class View> TILE_FN void wait_for_peers(const View& view, int row, int col) const {
    const ScatteredRows& rows = peer_rows->scattered;
    const int end = column_end(view, col);
    if (rows.rows == 0 || end <= col) return;
    while (read_acquire_system(rows.ready_flag) == 0) {}
    if (rows.adds_to_row(row)) {
      int column_chunk = rows.chunk_in_shard(0, col), chunk = rows.chunk_number(row, col) - rows.chunks_per_shard;
      for (int next = column_chunk * rows.cols; next < end; next += rows.cols, ++column_chunk, ++chunk) {
        const int all = rows.rows * rows.chunk_width(column_chunk, static_cast<int>(view.cols));
        const std::uint32_t* const word = rows.arrived + rows.flag_index(chunk);
        while (read_acquire_system(word) != static_cast<std::uint32_t>(rows.copies_chunks ? 1 : all)) {}
      }
    }
    fence_global_proxy();
  }
  template <class View> TILE_FN void signal_stored_chunks(const View& view, int height, int row, int col) const {
    const ScatteredRows& rows = peer_rows->scattered;
    const int end = column_end(view, col);
    if (rows.rows == 0 || end <= col) return;
    const bool is_last = rows.is_in_last_shard(rows.walk_position(row));
    if (is_last && !rows.counts_last_shard) return;
    wait_for_all_stores();
    std::uint32_t* const words = is_last || rows.copies_chunks ? rows.chunk_counts : rows.next_rank_counts;
    int chunk = rows.chunk_number(row, col);
    for (int next = col; col < end; col = next, ++chunk) {
      next = (rows.chunk_in_shard(0, col) + 1) * rows.cols;
      if (next > end) next = end;
      add_release_system(words + rows.flag_index(chunk), static_cast<std::uint32_t>(height * (next - col)));
    }
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_bulk(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc, int row,
                          int col) {
    constexpr int swizzled = swizzle_elements<T>;
    constexpr int bytes = (swap ? n : 64) * swizzle_bytes;
#pragma unroll
    for (int i = 0; i < m / warpgroups_per_tile / 64; ++i)
#pragma unroll
      for (int c = 0; c < (swap ? 1 : (n + swizzled - 1) / swizzled); ++c) {
        constexpr int rest = n % swizzled;
        const bool tail = !swap && rest != 0 && c == n / swizzled;
        const std::uint32_t out = shared_address(staging) + buffer * bytes;
        const float* const v = acc.v + i * (n / 2) + c * (swizzled / 2);
        auto write = [&] {
          if constexpr (swap)
            stage_transposed<T, n>(out, v);
          else if (tail)
            stage_dense<T, rest>(out, v);
          else
            stage_swizzled<T>(out, v);
        };
        auto send = [&] {
          const TargetOutput& o = view.target;
          const int from = row + i * 64;
          const CUtensorMap* const map = tail ? &o.tail : &o.map;
          const int product = is_grouped<Kernel> ? 0 : this->batch;
          const BoxOrigin box = swap ? BoxOrigin{from, col, product} : BoxOrigin{col + c * swizzled, from, product};
          if constexpr (scatters_rows<Kernel>) {
            if (i == 0 && c == 0) wait_for_peers(view, row, col);
            const ScatteredRows& rows = peer_rows->scattered;
            auto position = RowWalk::ShardPosition{0, from};
            const CUtensorMap* to = map;
            bool adds = o.adds_to_output;
            if (rows.rows > 0) {
              adds = rows.adds_to_row(from);
              if (!rows.copies_chunks || rows.is_in_last_shard(rows.walk_position(from))) {
                position = rows.shard_position(from);
                to = peer_rows->shards + position.shard;
              }
            }
            store_or_add_box(to, out, {box.x, position.row, box.batch}, adds);
          } else {
            store_or_add_box(map, out, box, o.adds_to_output);
          }
        };
        store_through_buffer<Kernel::config.staging>(*this, write, send);
      }
  }

  // Writes 64 x 64 rounded sums to shared memory, as 64 rows of 128 bytes, swizzled in 16-byte units.
  template <class T> TILE_FN void stage_swizzled(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int unit = j * 2 + lane / 16;
      const float* const x = v + j * 8;
      store_matrix4(out + r * 128 + (unit ^ (r % 8)) * 16, pack_pair<T>(x[0], x[1]), pack_pair<T>(x[2], x[3]),
                    pack_pair<T>(x[4], x[5]), pack_pair<T>(x[6], x[7]));
    }
  }
  template <class T, int cols> TILE_FN void stage_dense(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j) {
      const float* const x = v + j * 8;
      store_matrix4(out + r * (cols * static_cast<int>(sizeof(T))) + (j * 2 + lane / 16) * 16, pack_pair<T>(x[0], x[1]),
                    pack_pair<T>(x[2], x[3]), pack_pair<T>(x[4], x[5]), pack_pair<T>(x[6], x[7]));
    }
  }
  // Writes the transpose of 64 rows x `cols` columns of sums to shared memory, rounded and swizzled.
  template <class T, int cols> TILE_FN void stage_transposed(std::uint32_t out, const float* v) const {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < cols / 8; ++j) {
      const float* const x = v + j * 4;
      const int r = j * 8 + lane % 8, unit = warp * 2 + lane / 8 % 2;
      store_matrix2_transposed(out + r * 128 + (unit ^ (r % 8)) * 16, pack_pair<T>(x[0], x[1]),
                               pack_pair<T>(x[2], x[3]));
    }
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_with_epilogue(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc,
                                   int row, int col) {
    if (view.target.vector_epilogue)
      store_vectors<T, m / warpgroups_per_tile, n>(view, acc.v, row, col);
    else if (view.target.aligned_fours)
      store_runs<RunDirection::row, m / warpgroups_per_tile, n>(view, acc.v, row, col);
    else
      store_runs<RunDirection::column, m / warpgroups_per_tile, n>(view, acc.v, row, col);
  }

  // A thread's eight sums in an epilogue step: eight columns of a row if `across`, else eight rows of a column.
  template <bool across, int n> struct EpilogueStep {
    static constexpr int steps_per_row = steps_across<Kernel>;
    int r, c;
    TILE_FN EpilogueStep() {
      const int lane = threadIdx.x % 32;
      r = across ? (swap ? lane % 16 : lane / 2) : lane / 16 * 8;
      c = across ? (swap ? lane / 16 : lane % 2) * 8 : lane % 16;
    }
    TILE_FN int row(int step) const { return step / steps_per_row * 64 + threadIdx.x % 128 / 32 * 16 + r; }
    TILE_FN int col(int step) const { return step % steps_per_row * 16 + c; }
    TILE_FN bool is_inside(int step) const {
      return n % 16 == 0 || step % steps_per_row + 1 < steps_per_row || c < n % 16;
    }
    TILE_FN EpilogueVector<8> read_step(float* mine, const float* v, int step) const {
      __syncwarp();  // the warp has read the previous 16 x 16 sums
      call_with_constant<0, epilogue_steps_of<Kernel>>(step, [&]<int i>() {
        constexpr RegisterRange registers = step_registers<Kernel>(i);
        stage_sums<registers.count * 2>(mine, v + registers.first);
      });
      __syncwarp();
      return read_sums<across>(mine, r, c);
    }
  };
  TILE_FN float* warp_staging() const { return reinterpret_cast<float*>(staging) + threadIdx.x % 128 / 32 * 256; }

  // Eight contiguous elements of D, which are all inside or all outside D.
  struct EightElements {
    unsigned batch, y, x;
    bool inside;
    TILE_FN unsigned offset_of(Index row_stride, Index batch_stride) const {
      return batch * static_cast<unsigned>(batch_stride) + y * static_cast<unsigned>(row_stride) + x;
    }
    template <class T> TILE_FN void load_operand(const EpilogueInput& p, std::uint32_t* to) const {
      if (p.data && inside) copy_words<4>(to, static_cast<const T*>(p.data) + offset_of(p.row_stride, p.batch_stride));
    }
  };

  // Fast epilogue: all operands have type T and aligned 16-byte units along D's rows, and offsets fit in 32 bits. If
  // enough registers are free, the operands of a step are loaded during the previous one.
  template <class T, int rows, int n, class View>
  TILE_FN void store_vectors(const View& view, const float* v, int row, int col) {
    constexpr bool loads_early = rows / 64 * n / 2 < 192;
    const EpilogueStep<!swap, n> mine;
    const TargetOutput& o = view.target;
    const auto eight = [&](int group, int across) {
      const int r = row + group * 64 + mine.row(0), c = col + mine.col(across), y = swap ? c : r, x = swap ? r : c;
      const bool inside =
          mine.is_inside(across) && y < static_cast<int>(output_bounds(view).rows) && x < static_cast<int>(view.cols);
      return EightElements{static_cast<unsigned>(this->batch), static_cast<unsigned>(y), static_cast<unsigned>(x),
                           inside};
    };
    std::uint32_t operands[4][4] = {};
    const auto load_operands = [&](const EightElements& here) {
      here.template load_operand<T>(o.scale, operands[0]);
      here.template load_operand<T>(o.bias, operands[1]);
      here.template load_operand<T>(o.gate, operands[2]);
      here.template load_operand<T>(o.addend, operands[3]);
    };
    prefetch_to_l2<rows, n>(view, o.gate, row, col);
    prefetch_to_l2<rows, n>(view, o.addend, row, col);
    int step = epilogue_steps.first, group = step / mine.steps_per_row, across = step % mine.steps_per_row;
    EightElements here = eight(group, across);
    if (loads_early) load_operands(here);
#pragma unroll 1
    for (; step < epilogue_steps.end; ++step) {
      const EpilogueVector<8> sums = mine.read_step(warp_staging(), v, step);
      const EpilogueVector<8> z = tile::apply_epilogue<Math>(o, sums, [&](const EpilogueInput& p) {
        if (loads_early)
          return widen_pairs<T, 8>(operands[&p == &o.scale ? 0 : &p == &o.bias ? 1 : &p == &o.gate ? 2 : 3]);
        std::uint32_t two[4] = {};
        here.template load_operand<T>(p, two);
        return widen_pairs<T, 8>(two);
      });
      const std::uint32_t two[4] = {pack_pair<T>(z.v[0], z.v[1]), pack_pair<T>(z.v[2], z.v[3]),
                                    pack_pair<T>(z.v[4], z.v[5]), pack_pair<T>(z.v[6], z.v[7])};
      if (here.inside) write_words<4>(view.data + here.offset_of(view.row_stride, view.batch_stride), two);
      if (++across == mine.steps_per_row) {
        across = 0;
        ++group;
      }
      here = eight(group, across);
      if (loads_early && step + 1 < epilogue_steps.end) load_operands(here);
    }
  }

  // General epilogue: a thread stores eight contiguous elements of a row of D if they are aligned, else eight elements
  // of a column, so that a warp's stores are contiguous. With `swap`, D is the transpose of the tile.
  template <RunDirection run, int rows, int n, class View>
  TILE_FN void store_runs(const View& view, const float* v, int row, int col) {
    const EpilogueStep<(run == RunDirection::row) != swap, n> mine;
#pragma unroll 1
    for (int step = epilogue_steps.first; step < epilogue_steps.end; ++step) {
      const EpilogueVector<8> sums = mine.read_step(warp_staging(), v, step);
      const int r = row + mine.row(step), c = col + mine.col(step);
      const auto at = EpilogueRun<8, run>::in(output_bounds(view), swap ? c : r, swap ? r : c, this->batch);
      if (mine.is_inside(step) && at.inside_count > 0) apply_and_store(view, sums, at);
    }
  }
  // Prefetches the tile's part of an operand into the L2.
  template <int rows, int n, class View>
  TILE_FN void prefetch_to_l2(const View& view, const EpilogueInput& p, Index row, Index col) const {
    if (swap || !p.data || p.row_stride == 0) return;
    const int line = 128 / bytes_of(p.format), r = threadIdx.x % 128;
    if (r >= rows || row + r >= view.rows) return;
    const char* const data = static_cast<const char*>(p.data) +
                             (this->batch * p.batch_stride + (row + r) * p.row_stride + col) * bytes_of(p.format);
#pragma unroll 1
    for (int x = 0; x < n && col + x < view.cols; x += line)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(data + x * bytes_of(p.format)));
  }
  // Calls do_it<i>() with i, first <= i < end, as a constant, because registers can only be indexed by constants.
  template <int first, int end, class Do> TILE_FN static void call_with_constant(int i, const Do& do_it) {
    constexpr int middle = (first + end) / 2;
    if constexpr (end - first == 1)
      do_it.template operator()<first>();
    else if (i < middle)
      call_with_constant<first, middle>(i, do_it);
    else
      call_with_constant<middle, end>(i, do_it);
  }
};

}  // namespace ridge::tile::sm90
