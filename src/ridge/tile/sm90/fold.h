// Epilogues that combine two columns into one (gates). Columns j and j + h of a work item's sums are in the same
// thread, so that threads exchange no data. `FoldingConsumer` is the `at` of kernels that call at.fold. The function f
// that combines two sums u and g supplies:
//
//   f.dispatch_gate_form(run)                calls run(form) with one of f's constants, the same for all threads
//   f.load_biases(col, cols)                 returns the biases of this thread's two columns in col … col + 7
//   f(form, u, g)                            returns the result for u and g
//   f.stores_h, f.u_maps, f.g_maps           true if u and g are stored as well, and their tensor maps
//   f.write_unaligned(view, u, g, row, col)  stores the result for u and g, in any format and at any alignment
#pragma once

#include "ridge/tile/sm90/tile_operations.h"

namespace ridge::tile::sm90 {

struct BoxMaps {  // tensor maps for boxes of 64 columns (`map`), and for the remaining columns of a tile (`tail`)
  CUtensorMap map, tail;
};
struct ColumnBias {  // bias of the sums u and g for two adjacent columns, two 16-bit numbers in each register
  std::uint32_t u, g;
};

// Writes 16 columns of 64 rows from registers (layout of wgmma, two numbers in each) to columns 16 j … of a buffer in
// the copy engine's layout: rows of 128 or 64 bytes, swizzled in 16-byte units so that eight rows use every bank once.
template <class T, int cols> TILE_FN void stage_packed(std::uint32_t out, int j, const std::uint32_t* x) {
  constexpr int bytes = cols * static_cast<int>(sizeof(T)), shift = bytes == 128 ? 0 : 1;
  constexpr int mask = bytes == 128 ? 7 : bytes == 64 ? 3 : 0;
  const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
  const int unit = (j * 2 + lane / 16) ^ (r >> shift & mask);
  store_matrix4(out + r * bytes + unit * 16, x[0], x[1], x[2], x[3]);
}

template <class Kernel, class At> struct FoldingConsumer {
  static constexpr auto config = Kernel::config;
  static constexpr int columns = Kernel::columns;
  At& at;

  TILE_FN Row row() const { return at.row(); }
  TILE_FN Col col() const { return {{at.n0 / 2, columns}}; }
  template <class... X> TILE_FN void load(X&&... x) const { at.load(static_cast<X&&>(x)...); }
  template <class Sums, class F> struct FoldedSums {  // references, because f has some hundred bytes of parameters
    const Sums& sums;
    const F& f;
  };
  template <class Sums, class F> TILE_FN FoldedSums<Sums, F> fold(const Sums& sums, const F& f) const {
    return {sums, f};
  }

  template <class T, int m, int n, class Sums, class F>
  TILE_FN void store(const OutputView<T, m, n>& view, const FoldedSums<Sums, F>& folded, Row row, Col col) {
    const int first = static_cast<int>(row.begin) + at.row_part * rows, column = static_cast<int>(col.begin);
    if (view.target.stores_in_bulk)
      folded.f.dispatch_gate_form([&](auto form) __attribute__((always_inline)) {
        store_bulk<T>(form, view, folded, first, column);
      });
    else
      store_unaligned(view, folded, first, column);
  }

 private:
  static constexpr int rows = config.m / config.warpgroups_per_tile(),
                       group = config.n / 2;  // group: registers that hold 64 rows

  template <class T, class Form, class View, class Sums, class F>
  TILE_FN void store_bulk(Form form, const View& view, const FoldedSums<Sums, F>& folded, int row, int col) {
    constexpr int swizzled = swizzle_elements<T>;
#pragma unroll
    for (int c = 0; c < (columns + swizzled - 1) / swizzled; ++c) {
      const float* const v = folded.sums.v + c * (swizzled / 2);
      const BoxOrigin box = {col + c * swizzled, row, at.batch};
      if (c < columns / swizzled)
        store_columns<T, swizzled>(form, view, folded.f, v, box);
      else if constexpr (columns % swizzled != 0)
        store_columns<T, columns % swizzled>(form, view, folded.f, v, box);
    }
  }

  template <class T, int cols, class Form, class View, class F>
  TILE_FN void store_columns(Form form, const View& view, const F& f, const float* v, BoxOrigin box) {
    const int width = static_cast<int>(view.cols);
#pragma unroll
    for (int i = 0; i < rows / 64; ++i, v += group, box.y += 64) {
      if (f.stores_h) {
        write_box<T, cols>(v, f, width, f.u_maps, box, [](float u, float) { return u; });
        write_box<T, cols>(v, f, width, f.g_maps, box, [](float, float g) { return g; });
      }
      if (view.data != nullptr)
        write_box<T, cols>(v, f, width, view.target, box, [&](float u, float g) { return f(form, u, g); });
    }
  }

  // Writes a box through a buffer, 16 columns at a time, because few registers are free.
  template <class T, int cols, class F, class Maps, class One>
  TILE_FN void write_box(const float* v, const F& f, int width, const Maps& to, BoxOrigin box, One one) {
    const std::uint32_t out = shared_address(at.staging) + at.buffer * (64 * swizzle_bytes);
    const auto write = [&] {
#pragma unroll
      for (int j = 0; j < cols / 16; ++j) {
        std::uint32_t x[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float *const u = v + j * 8 + half * 4, *const g = u + group / 2;
          const ColumnBias two = f.load_biases(box.x + j * 16 + half * 8, width);
          const float2 bu = unpack_pair<T>(two.u), bg = unpack_pair<T>(two.g);
#pragma unroll
          for (int q = 0; q < 4; q += 2)
            x[half * 2 + q / 2] = pack_pair<T>(one(u[q] + bu.x, g[q] + bg.x), one(u[q + 1] + bu.y, g[q + 1] + bg.y));
        }
        stage_packed<T, cols>(out, j, x);
      }
    };
    store_through_buffer<config.staging>(
        at, write, [&] { store_box(cols == swizzle_elements<T> ? &to.map : &to.tail, out, box); });
  }

  // Stores in any format and alignment: 64 x 16 pairs at a time through shared memory, sixteen columns of u and of g in
  // one row of 32 floats, swizzled in 16-byte units.
  template <class View, class Pair>
  TILE_FN void store_unaligned(const View& view, const Pair& folded, int row, int col) {
    float* const staged = reinterpret_cast<float*>(at.staging);
    constexpr int wide = columns / 16;
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll 1
    for (int chunk = 0; chunk < rows / 64 * wide; ++chunk) {
      at.sync_group();  // all threads have read the previous chunk
#pragma unroll
      for (int i = 0; i < rows / 64 * wide; ++i) {  // registers are indexed by constants only
        if (chunk != i) continue;
        const float* const v = folded.sums.v + i / wide * group + i % wide * 8;
#pragma unroll
        for (int j = 0; j < 4; ++j)  // 8 columns each: u, u, g, g
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float* const x = v + j / 2 * (group / 2) + j % 2 * 4 + half * 2;
            const int r = warp * 16 + half * 8 + lane / 4, unit = j * 2 + lane % 4 / 2;
            *reinterpret_cast<float2*>(staged + r * 32 + (unit ^ (r % 8)) * 4 + lane % 2 * 2) = make_float2(x[0], x[1]);
          }
      }
      at.sync_group();
#pragma unroll 1
      for (int e = threadIdx.x % 128; e < 64 * 16; e += 128) {
        const int r = e / 16, c = e % 16;
        const Index y = row + chunk / wide * 64 + r, x = col + chunk % wide * 16 + c;
        const auto sum = [&](int unit) { return staged[r * 32 + (unit ^ (r % 8)) * 4 + c % 4]; };
        if (y < view.rows && x < view.cols) folded.f.write_unaligned(view, sum(c / 4), sum(c / 4 + 4), y, x);
      }
    }
  }
};

}  // namespace ridge::tile::sm90
