// Tiles for step kernels (steps.h) on a CPU that multiplies bf16 in pairs: a unit is two elements of a row, adjacent
// along k, and vdpbf16ps multiplies and adds 16 units in the time of 16 f32. Panels have the layout of panels.h, in
// units; sums are f32, and left operands are rounded to bf16. Included by files that are compiled with AVX512_BF16.
#pragma once

#include <immintrin.h>

#include <array>

#include "ridge/tile/cpu/steps.h"

namespace ridge::tile {
namespace {
struct Bf16Pairs {};  // element type of tiles whose bf16 are multiplied in pairs
}  // namespace

// Row-major bf16 as in memory; a column of zeros follows an odd last column.
template <int Rows, int Cols> struct SharedTile<Bf16Pairs, Rows, Cols> {
  using type = Bf16Pairs;
  static constexpr int rows = Rows, cols = Cols;
  static constexpr int stride = Cols + 32;  // a power of two would map rows to few cache sets
  alignas(64) Bf16 v[Rows * stride];
  int height = 0, width = 0;
};
namespace {
template <int M, int N> struct PairPanels {
  static constexpr int rows = M, cols = N, panel = panel_rows<float, M>, panels = M / panel, units = (N + 1) / 2;
  static constexpr bool pairs = true;
  alignas(64) std::int32_t v[M * units];
  int width = N;  // number of valid elements in a row

  int k_steps() const { return (width + 1) / 2; }
  std::int32_t* panel_data(int p) { return v + p * (panel * units); }
  const std::int32_t* panel_data(int p) const { return v + p * (panel * units); }
};
}  // namespace
template <int M, int N> struct ResidentTile<Bf16Pairs, M, N> : PairPanels<M, N> { using type = Bf16Pairs; };
template <int M, int N, int Groups> struct RegisterOperand<M, N, Groups, Bf16Pairs> : PairPanels<M, N> {};
template <> struct AccumulatedType<Bf16Pairs> { using type = ComputeAs<float>; };

// Overloads of functions in steps.h for tiles of `Bf16Pairs`.
namespace {

typedef std::int32_t Bf16Pair __attribute__((may_alias));

// Right operand of a product in pairs: pair k of column c is at c * col + k * step.
struct PairColumns {
  const Bf16Pair* data;
  Index col, step;
  using Lanes = Vector<float>::Lanes;
  [[gnu::always_inline]] static Lanes multiply_add(Lanes sum, Vector<std::int32_t>::Lanes left, std::int32_t right) {
    return reinterpret_cast<Lanes>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(left),
                                                    reinterpret_cast<__m512bh>(_mm512_set1_epi32(right))));
  }
};

template <int R, int C> PairColumns columns_of_transpose(const SharedTile<Bf16Pairs, R, C>& tile) {
  return {reinterpret_cast<const Bf16Pair*>(tile.v), tile.stride / 2, 1};
}
// A tile whose rows are interleaved in pairs; zeros follow an odd last row.
template <int R, int C> struct RowPairs {
  static_assert(R % 2 == 0 && C % 16 == 0, "RowPairs: rows x2, columns x16");
  alignas(64) std::int32_t v[R / 2 * C];

  explicit RowPairs(const SharedTile<Bf16Pairs, R, C>& tile) {
    for (int r = 0; r < tile.height; r += 2)
      for (int c = 0; c < tile.width; c += 16) {
        const Bf16* const at = tile.v + r * tile.stride + c;
        const auto widened = [](const Bf16* x) {
          return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
        };
        const __m512i next_row = r + 1 < tile.height ? widened(at + tile.stride) : _mm512_setzero_si512();
        _mm512_store_si512(v + r / 2 * C + c, _mm512_or_si512(widened(at), _mm512_slli_epi32(next_row, 16)));
      }
  }
  PairColumns columns() const { return {v, 1, C}; }
};
template <int R, int C> RowPairs<R, C> interleave_row_pairs(const SharedTile<Bf16Pairs, R, C>& tile) {
  return RowPairs<R, C>(tile);
}

template <int M, int N, class View>
void load_tile(ResidentTile<Bf16Pairs, M, N>& tile, const View& view, Index matrix_start, int first) {
  using Tile = ResidentTile<Bf16Pairs, M, N>;
  tile.width = static_cast<int>(view.cols);
  const auto* const data = static_cast<const Bf16*>(view.data);
  for (int p = 0; p < Tile::panels; ++p)
    for (int r = 0; r < Tile::panel; ++r) {
      const Index at = first + p * Tile::panel + r;
      auto* const to = reinterpret_cast<Bf16*>(tile.panel_data(p) + r);
      const Bf16* const from = at < view.rows ? data + matrix_start + cpu::row_offset(view, at) : nullptr;
      for (int c = 0; c < 2 * tile.k_steps(); ++c)
        to[c / 2 * 2 * Tile::panel + c % 2] = from != nullptr && c < tile.width ? from[c] : Bf16{};
    }
}
template <int Rows, int Cols, class View>
void load_tile(SharedTile<Bf16Pairs, Rows, Cols>& tile, const View& view, Index matrix_start, int first) {
  tile.height = static_cast<int>(std::clamp<Index>(view.rows - first, 0, Rows));
  tile.width = static_cast<int>(view.cols);
  const auto* const data = static_cast<const Bf16*>(view.data);
  for (int r = 0; r < tile.height; ++r) {
    Bf16* const to = tile.v + r * tile.stride;
    std::copy_n(data + matrix_start + cpu::row_offset(view, first + r), tile.width, to);
    to[tile.width] = Bf16{};
  }
}

template <int M, int N, class From> void copy_tile(PairPanels<M, N>& to, const From& from) {
  static_assert(From::panel == PairPanels<M, N>::panel && From::panel % 16 == 0, "copy: panels of whole vectors");
  alignas(64) static constexpr auto order = [] {
    std::array<std::uint16_t, 32> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
    return out;
  }();
  const __m512i interleaved = _mm512_load_si512(order.data());
  to.width = from.width;
  for (int p = 0; p < to.panels; ++p)
    for (int c = 0; c < from.width; c += 2)
      for (int r = 0; r < to.panel; r += 16) {
        const float* const at = from.panel_data(p) + c * to.panel + r;
        const __m512 low = _mm512_load_ps(at);
        const __m512 high = c + 1 < from.width ? _mm512_load_ps(at + to.panel) : _mm512_setzero_ps();
        const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
        _mm512_store_si512(to.panel_data(p) + c / 2 * to.panel + r, _mm512_permutexvar_epi16(interleaved, both));
      }
}

}  // namespace
}  // namespace ridge::tile
