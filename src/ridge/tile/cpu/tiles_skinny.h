// Products of few rows with weights along k, [n][k], in AMX tiles. The weights are the left operand of the tiles and
// are read once, in place, 16 rows of 64 bytes at a time; the activations are packed as the right operand. The sums are
// [n][m] and are transposed when they are stored. 4096 x 4096 bf16 at 17 GB/s take 2 ms and the products of 64 rows
// a third of that, so memory must never be idle: lines are prefetched 16 steps in advance. More than 64 rows are
// multiplied in groups; the first group loads weights into the L2, and all groups prefetch the next weights. T: see
// tiles.h.
#pragma once

#include <algorithm>

#include "ridge/tile/cpu/tiles.h"

namespace ridge::tile::cpu {

constexpr int max_skinny_tile_rows = 160;
constexpr Index prefetch_steps = 16;

// Weights of one pass, and the weights of the next pass, which are prefetched.
template <class W> struct SkinnyWeights {
  const W* from = nullptr;
  const W* next = nullptr;
  Index stride = 0;  // elements between rows
  int rows = 0;
};

struct RowGroup {  // `wide` tiles of rows of A, beginning with tile `first`
  int first = 0, wide = 0, index = 0, groups = 1;
};

// Computes C[rows of the group][rows of w] (+)= A * w transposed, `tall` tiles of weights by `wide` tiles of rows of A.
template <class T, class W, int tall, int wide>
void multiply_weights(const SkinnyArgs& x, const SkinnyWeights<W>& w, const RowGroup& group, Unit* c) {
  constexpr Index deep = tile_bytes / sizeof(W);  // elements of k in a step
  const Index width = (x.rows + tile_rows - 1) / tile_rows * tile_rows;
  const Index stride = w.stride * static_cast<Index>(sizeof(W)), full_steps = x.k / deep, rest = x.k % deep;
  T::configure(tile_shapes<tall, wide>(w.rows, wide * tile_rows));
  for_each_sum_tile<tall, wide>([&](auto i, auto j)
                                    __attribute__((always_inline)) { T::template zero<i * wide + j>(); });
  const Unit* a = x.a_by_rows + group.first * tile_rows;
  const W* from = w.from;
  const W* next =
      w.next + full_steps * group.index / group.groups * deep;  // part of the next weights that this group prefetches
  for (Index s = 0; s < full_steps; ++s, a += tile_rows * width, from += deep) {
    tile_step<T, tall, wide>(from, stride, tile_rows * stride, a, 4 * width);
    const W* prefetch_address = s + prefetch_steps < full_steps ? from + prefetch_steps * deep
                                                                : w.next + (s + prefetch_steps - full_steps) * deep;
    if (group.groups > 1) {
      if (s % group.groups != 0) continue;
      prefetch_address = next;
      next += deep;
    }
    for (int i = 0; i < w.rows; ++i, prefetch_address += w.stride) __builtin_prefetch(prefetch_address, 0, 2);
  }
  alignas(64) Unit buffer[tall * tile_rows * wide * tile_rows] = {};
  if (rest > 0) {
    for (int i = 0; i < w.rows; ++i) std::memcpy(buffer + i * tile_rows, from + i * w.stride, rest * sizeof(W));
    T::order_stores();
    tile_step<T, tall, wide>(buffer, tile_bytes, tile_rows * tile_bytes, a, 4 * width);
  }
  for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
    T::template store<i * wide + j>(buffer + (i * wide + j) * tile_rows * tile_rows, tile_bytes);
  });
  T::release();
  for_each_sum_tile<tall, wide>([&](auto i, auto j) __attribute__((always_inline)) {
    const int row = (group.first + j) * tile_rows, cols = std::min(w.rows - i * tile_rows, tile_rows);
    T::store_transposed(buffer + (i * wide + j) * tile_rows * tile_rows, c + row * x.c_stride + i * tile_rows,
                        x.c_stride, std::min(x.rows - row, tile_rows), cols, x.accumulate);
  });
}

// Implements Engine::skinny_along_k with AMX tiles; a_by_rows is one panel, [steps][rows rounded up to full tiles].
template <class T, class W> void tile_skinny_along_k(const SkinnyArgs& x) {
  using Multiply = void (*)(const SkinnyArgs&, const SkinnyWeights<W>&, const RowGroup&, Unit*);
  static constexpr Multiply by_width[2][4] = {
      {multiply_weights<T, W, 1, 1>, multiply_weights<T, W, 1, 2>, multiply_weights<T, W, 1, 3>,
       multiply_weights<T, W, 1, 4>},
      {multiply_weights<T, W, 2, 1>, multiply_weights<T, W, 2, 2>, nullptr, nullptr}};
  constexpr Index in_unit = sizeof(Unit) / sizeof(W);
  const int tiles = (x.rows + tile_rows - 1) / tile_rows, max_weight_rows = (tiles <= 2 ? 2 : 1) * tile_rows,
            groups = (x.rows + rows_per_tile_group - 1) / rows_per_tile_group;
  const Index k_block = tile_k_block_elements(x.rows, in_unit);
  for (Index k = 0; k < x.k; k += k_block) {
    SkinnyArgs part = x;
    part.k = std::min(k_block, x.k - k);
    part.accumulate = x.accumulate || k > 0;
    part.a_by_rows = x.a_by_rows + k / in_unit * tiles * tile_rows;
    SkinnyWeights<W> w{.from = static_cast<const W*>(x.b) + k, .stride = x.b_stride};
    for (Index j = 0; j < x.n; j += w.rows, w.from += w.rows * w.stride) {
      w.rows = static_cast<int>(std::min<Index>(max_weight_rows, x.n - j));
      w.next = j + w.rows + max_weight_rows <= x.n ? w.from + w.rows * w.stride : w.from;
      for (RowGroup g{.groups = groups}; g.index < groups; ++g.index, g.first += g.wide) {
        g.wide = (tiles - g.first) / (groups - g.index);
        by_width[w.rows > tile_rows ? 1 : 0][g.wide - 1](part, w, g, static_cast<Unit*>(x.c) + j);
      }
    }
  }
}

}  // namespace ridge::tile::cpu
