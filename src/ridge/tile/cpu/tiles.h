// The register block of engines that multiply AMX tiles. AMX has eight registers of 16 rows x 64 bytes, and an
// instruction adds the product of a tile of A (16 rows x 16 units) and a tile of B (16 units x 16 columns, as in a
// packed panel) to a tile of sums: 16 x 16 x 32 bf16 in 16 cycles, while a load takes 8. 32 x 32 sums are four tiles;
// two tiles of A and two of B feed four products: 32 cycles of loads during 64 of multiplies. T defines the tiles:
// configure, zero, load, load_past_l1, add_product, store, order_stores, release, stream_row and store_transposed for
// results, and lanes for `PrefetchCursor`. T is a type of an unnamed namespace, so that the linker cannot use this code
// for another file's instruction set; a test uses tiles in plain C++. Source: Intel SDM vol. 1, chapter 18.
// `TileShapes` has the layout of ldtilecfg: palette, start row, bytes per row and rows of each tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ridge/tile/cpu/block.h"

namespace ridge::tile::cpu {

constexpr int tile_rows = 16, tile_bytes = 64;

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Returns the shapes for `tall` tiles of the left operand with `rows` rows in all and `wide` tiles of the right one
// with `cols` columns. Tiles 0 … tall * wide - 1 hold sums, left tiles start at tile 4, right tiles follow them.
template <int tall, int wide> [[gnu::always_inline]] inline TileShapes tile_shapes(int rows, int cols) {
  static_assert(tall * wide <= 4 && tall + (wide < 4 ? wide : 3) <= 4);
  TileShapes s;
  const auto shape = [&s](int tile, int tall_of, int bytes) __attribute__((always_inline)) {
    s.rows[tile] = static_cast<std::uint8_t>(tall_of);
    s.bytes[tile] = static_cast<std::uint16_t>(bytes);
  };
  const auto part = [](int all, int i) __attribute__((always_inline)) {
    return all - tile_rows * i < tile_rows ? all - tile_rows * i : tile_rows;
  };
  for (int i = 0; i < tall; ++i) {
    shape(4 + i, part(rows, i), tile_bytes);
    for (int j = 0; j < wide; ++j) shape(i * wide + j, part(rows, i), 4 * part(cols, j));
  }
  for (int j = 0; j < wide && 4 + tall + j < 8; ++j) shape(4 + tall + j, tile_rows, 4 * part(cols, j));
  return s;
}

// Calls one(i, j) for each tile of sums, with i and j as compile-time constants.
template <int tall, int wide, class F> [[gnu::always_inline]] inline void for_each_sum_tile(const F& one) {
  [&]<int... t>(std::integer_sequence<int, t...>) __attribute__((always_inline)) {
    (one(std::integral_constant<int, t / wide>{}, std::integral_constant<int, t % wide>{}), ...);
  }
  (std::make_integer_sequence<int, tall * wide>{});
}

// Runs one step of 16 units. Each tile of either operand is loaded once, shortly before its first use.
template <class T, int tall, int wide> [[gnu::always_inline]] inline void tile_step(const void* a, Index a_stride,
                                                                                    Index a_tile, const Unit* b,
                                                                                    Index b_stride) {
  for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
    constexpr int right = 4 + tall + (4 + tall + j < 8 ? j : 0);
    if constexpr (j == 0) T::template load<4 + i>(static_cast<const char*>(a) + i * a_tile, a_stride);
    if constexpr (i == 0) T::template load_past_l1<right>(b + tile_rows * j, b_stride);
    T::template add_product<i * wide + j, 4 + i, right>();
  });
}

// Loads the sums that are added to, or zeroes them.
template <class T, int tall, int wide>
[[gnu::always_inline]] inline void start_sum_tiles(const BlockArgs& x, const Unit* c) {
  if (x.accumulate) {
    for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
      T::template load<i * wide + j>(c + i * tile_rows * x.c_stride + j * tile_rows, x.c_stride * 4);
    });
  } else {
    for_each_sum_tile<tall, wide>([&](auto i, auto j)
                                      __attribute__((always_inline)) { T::template zero<i * wide + j>(); });
  }
}

template <class T, int tall, int wide> [[gnu::always_inline]] inline void store_sum_tiles(const BlockArgs& x, Unit* c) {
  if (x.non_temporal && x.cols == 2 * tile_rows) {  // tiles have no non-temporal store, so a buffer is stored
    alignas(64) Unit buffer[tall * tile_rows * 2 * tile_rows];
    for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
      T::template store<i * wide + j>(buffer + i * tile_rows * 2 * tile_rows + j * tile_rows, 8 * tile_rows);
    });
    for (int i = 0; i < x.rows; ++i) T::stream_row(c + i * x.c_stride, buffer + i * 2 * tile_rows);
  } else {
    for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
      T::template store<i * wide + j>(c + i * tile_rows * x.c_stride + j * tile_rows, x.c_stride * 4);
    });
  }
}

template <class T, int tall, int wide>
[[gnu::always_inline]] inline void multiply_tile_panel(const BlockArgs& x, const Unit* b, Unit* c, bool fetch_c,
                                                       PrefetchCursor<T, true>& cursor) {
  const Index a_stride = x.left_packed ? tile_bytes : x.a_stride * 4, a_tile = tile_rows * a_stride,
              a_step = x.left_packed ? x.rows * tile_bytes : tile_bytes;
  const Index b_stride = x.b_stride * 4, b_step = tile_rows * x.b_stride;
  start_sum_tiles<T, tall, wide>(x, c);
  const char* a = reinterpret_cast<const char*>(x.a);
  const Unit* next_c = c + 2 * tile_rows;
  int rows_to_fetch = fetch_c ? x.rows : 0;
  const auto has_address = [](const PrefetchPlan& next) { return next.mask != 0 || next.shift != 0; };
  const bool prefetches = has_address(x.prefetch_a) || has_address(x.prefetch_b);
  // Prefetches of C are spread over the steps of the panel, because a burst would occupy the fill buffers that tile
  // loads need (a step of 128 x 128 x 128 takes 44 ns instead of 52). Sums that are reloaded are in scratch, whose rows
  // are in different L1 sets.
  const Index blocks = x.steps / tile_rows, c_rows_per_step = std::max<Index>(2, (x.rows + blocks - 1) / blocks);
  for (Index s = 0; s < x.steps; s += tile_rows) {
    tile_step<T, tall, wide>(a, a_stride, a_tile, b, b_stride);
    a += a_step;
    b += b_step;
    if (prefetches) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) cursor.prefetch_step();
      cursor.recompute_addresses(4);
    }
    for (Index i = 0; i < c_rows_per_step && rows_to_fetch > 0; ++i, --rows_to_fetch, next_c += x.c_stride) {
      __builtin_prefetch(next_c, 1);
      __builtin_prefetch(next_c + 2 * tile_rows - 1, 1);
    }
  }
  store_sum_tiles<T, tall, wide>(x, c);
}

template <class T, int tall, int wide> void multiply_tile_panels(const BlockArgs& x) {
  const int shape = x.rows * 64 + x.cols;
  if (x.tile_shape == nullptr || *x.tile_shape != shape) T::configure(tile_shapes<tall, wide>(x.rows, x.cols));
  PrefetchCursor<T, true> cursor(x.prefetch_a, x.prefetch_b);
  auto* c = static_cast<Unit*>(x.c);
  const Unit* b = x.b;
  for (int panel = 0; panel < x.panels; ++panel, b += x.panel_stride, c += 2 * tile_rows) {
    multiply_tile_panel<T, tall, wide>(x, b, c, panel + 1 < x.panels && !x.non_temporal, cursor);
    cursor.next_panel();
  }
  if (x.tile_shape == nullptr) return T::release();
  *x.tile_shape = shape;
}

// The register block of 32 x 32 sums. Packed A is [blocks of 16 units][rows][16 units]; steps are full blocks.
template <class T> void multiply_tile_block(const BlockArgs& x) {
  if (x.rows > tile_rows)
    return x.cols > tile_rows ? multiply_tile_panels<T, 2, 2>(x) : multiply_tile_panels<T, 2, 1>(x);
  return x.cols > tile_rows ? multiply_tile_panels<T, 1, 2>(x) : multiply_tile_panels<T, 1, 1>(x);
}

}  // namespace ridge::tile::cpu
