// Small products of f32, one template for all instruction sets. Operands are in the L1, so nothing is prefetched and
// nothing is packed but a B along k. The sums of a block stay in registers over all of k. Blocks are wide rather than
// tall: with AVX-512, 6 x 64 sums take 24 registers and 10 loads per 24 multiply-adds, and 14 rows of up to 32 columns
// take 28. 64 x 64 x 64 then reach the peak (Zen 5). For V see block.h.
#pragma once

#include <array>
#include <utility>

#include "ridge/tile/cpu/block.h"

namespace ridge::tile::cpu {

// Addresses of the elements of A in a block: rows share pointers (LeftAddresses) if k is contiguous, else rows are
// adjacent and steps of k have a stride.
template <int rows, bool along_k> struct SmallLeftAddresses {
  const Unit* first;
  Index stride;
  [[gnu::always_inline]] SmallLeftAddresses(const Unit* a, Index a_stride) : first(a), stride(a_stride) {}
  [[gnu::always_inline]] const Unit& unit_at(int row, int) const { return first[row]; }
  [[gnu::always_inline]] void advance_one_step() { first += stride; }
  [[gnu::always_inline]] void advance_steps(int) {}
};
template <int rows> struct SmallLeftAddresses<rows, true> : LeftAddresses<rows, false> {
  using LeftAddresses<rows, false>::LeftAddresses;
  [[gnu::always_inline]] void advance_one_step() {}
};

// Computes a block of sums over all of k. `edge` is true if the last vector of columns is partial.
template <class V, int rows, int vectors, bool along_k, bool edge>
void multiply_small_block(const SmallArgs& x, const Unit* left, const Unit* b, Index b_stride, float* c, int cols) {
  typename V::Register sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sums[i][j] = V::zero();
  const auto last = partial_lanes<V>(edge ? cols - (vectors - 1) * V::lanes : V::lanes);
  SmallLeftAddresses<rows, along_k> a(left, x.a_stride);
  const Index c_stride = x.c_stride;
  const auto step = [&](int u) __attribute__((always_inline)) {
    typename V::Register columns[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      columns[j] = edge && j == vectors - 1 ? V::load_part(b + V::lanes * j, last) : V::load(b + V::lanes * j);
    b += b_stride;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Unit& left_unit = a.unit_at(i, u);
      if constexpr (can_broadcast_from_memory<V> && vectors <= 2) {
        if (vectors == 1 || i % 2 == 1) {
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add_at(sums[i][j], left_unit, columns[j]);
          continue;
        }
      }
      const auto broadcast = V::broadcast(left_unit);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add(sums[i][j], broadcast, columns[j]);
    }
    a.advance_one_step();
  };
  Index k = x.k;
  for (; k >= 4; k -= 4) {
    step(0);
    step(1);
    step(2);
    step(3);
    a.advance_steps(4);
  }
  for (; k > 0; --k) {
    step(0);
    a.advance_steps(1);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += c_stride)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      if (edge && j == vectors - 1)
        V::sum_store_part(c + V::lanes * j, sums[i][j], last);
      else
        V::sum_store(c + V::lanes * j, sums[i][j]);
    }
}

// Largest numbers of rows of a block with 1, 2 … vectors of columns, so that sums, columns and a broadcast fit in the
// registers.
template <class V> inline constexpr auto max_small_rows = [] {
  if constexpr (V::lanes == 16)
    return std::array<int, 4>{14, 14, 8, 6};
  else
    return std::array<int, 2>{10, 6};
}();

using SmallFunction = void (*)(const SmallArgs&, const Unit* left, const Unit* b, Index b_stride, float* c, int cols);
using SmallFunctions = std::array<SmallFunction, 14>;  // by rows

template <class V, int vectors, bool along_k, bool edge, int... i>
constexpr SmallFunctions small_functions_by_rows(std::integer_sequence<int, i...>) {
  return {multiply_small_block<V, i + 1, vectors, along_k, edge>...};
}
template <class V, int vectors, bool along_k, bool edge>
inline constexpr SmallFunctions small_functions = small_functions_by_rows<V, vectors, along_k, edge>(
    std::make_integer_sequence<int, max_small_rows<V>[vectors - 1]> {});

// Functions of one number of vectors: A across k or along k, with full or partial vectors.
using SmallVariants = std::array<SmallFunctions, 4>;
template <class V, int... i>
constexpr std::array<SmallVariants, sizeof...(i)> small_variants(std::integer_sequence<int, i...>) {
  return {SmallVariants{small_functions<V, i + 1, false, false>, small_functions<V, i + 1, false, true>,
                        small_functions<V, i + 1, true, false>, small_functions<V, i + 1, true, true>}...};
}

// Division into parts of almost equal size, without a division if there is one part.
struct EvenParts {
  int count, each, more;
  [[gnu::always_inline]] EvenParts(int size, int parts) : count(parts), each(size), more(0) {
    if (parts == 1) return;
    each = size / parts;
    more = size % parts;
  }
  [[gnu::always_inline]] int size(int part) const { return each + (part < more ? 1 : 0); }
};

template <class V> inline constexpr int max_small_vectors = static_cast<int>(max_small_rows<V>.size());

template <class V> [[gnu::always_inline]] inline SmallFunction find_small_function(bool a_along_k, int rows, int cols) {
  static constexpr auto functions = small_variants<V>(std::make_integer_sequence<int, max_small_vectors<V>>{});
  const int vectors = (cols + V::lanes - 1) / V::lanes;
  return functions[vectors - 1][(a_along_k ? 2 : 0) + (cols % V::lanes != 0 ? 1 : 0)][rows - 1];
}

// Selects how many panels of columns and blocks of rows a product has. The fewest blocks have the most sums in
// registers; of equal ones, wider blocks need fewer loads.
struct SmallBlocking {
  int panels, blocks;
};
template <class V> [[gnu::always_inline]] inline SmallBlocking choose_small_blocking(int rows, int vectors) {
  const auto count_parts = [](int size, int part) { return (size + part - 1) / part; };
  SmallBlocking best{vectors, count_parts(rows, max_small_rows<V>[0])};
#pragma GCC unroll 4
  for (int wide = 2; wide <= max_small_vectors<V>; ++wide) {
    const SmallBlocking other{count_parts(vectors, wide), count_parts(rows, max_small_rows<V>[wide - 1])};
    if (other.panels * other.blocks <= best.panels * best.blocks) best = other;
  }
  return best;
}

// Multiplies panel by panel with a B across k in place, or with a B along k, which `pack` first copies to `packed`.
template <class V>
[[gnu::noinline]] void multiply_small_panels(const SmallArgs& x, void (*pack)(const PackArgs&), Unit* packed) {
  const int rows = static_cast<int>(x.m), n = static_cast<int>(x.n), vectors = (n + V::lanes - 1) / V::lanes;
  const SmallBlocking blocking = choose_small_blocking<V>(rows, vectors);
  const EvenParts panels(vectors, blocking.panels), blocks(rows, blocking.blocks);
  const Index row_stride = x.a_along_k ? x.a_stride : 1;
  for (int i = 0, col = 0; i < panels.count; ++i) {
    const int width = panels.size(i) * V::lanes, cols = n - col < width ? n - col : width;
    const Unit *a = x.a, *b = x.b + col;
    Index b_stride = x.b_stride;
    if (pack != nullptr) {
      pack({x.b + col * x.b_stride, x.b_stride, cols, width, x.k, packed});
      b = packed;
      b_stride = width;
    }
    float* c = x.c + col;
    for (int j = 0; j < blocks.count; ++j) {
      const int block_rows = blocks.size(j);
      find_small_function<V>(x.a_along_k, block_rows, cols)(x, a, b, b_stride, c, cols);
      a += block_rows * row_stride;
      c += block_rows * x.c_stride;
    }
    col += width;
  }
}

// A function of its own, so that products with B in place do not need this stack.
template <class V, void (*pack_along_k)(const PackArgs&)>
[[gnu::noinline]] void pack_and_multiply_small(const SmallArgs& x) {
  alignas(64) Unit packed[max_small_vectors<V> * V::lanes * max_small_size];
  multiply_small_panels<V>(x, pack_along_k, packed);
}

// True if the last `narrow` columns take less time with vectors of rows, which A across k has in place, than with a
// vector per row most of whose lanes are empty. Two multiply-adds start per cycle, four cycles after those on which
// they depend; transposing the sums takes about 32 cycles per vector of rows.
template <class V> constexpr bool prefers_transposed_columns(const SmallArgs& x, Index narrow) {
  const Index vectors = (x.m + V::lanes - 1) / V::lanes;
  const Index doubled_step = narrow * vectors < 8 ? 8 : narrow * vectors;
  return doubled_step * x.k + 64 * (vectors + 1) < x.m * x.k;
}

// Computes the columns from `first` on as the transposed product, whose vectors are rows of A across k.
template <class V, void (*transpose_sums)(const TransposeArgs&)>
[[gnu::noinline]] void multiply_transposed_columns(const SmallArgs& x, Index first) {
  alignas(64) float sums[max_narrow_columns * max_small_size];
  SmallArgs transposed;
  transposed.a = x.b + first * (x.b_along_k ? x.b_stride : 1);
  transposed.a_along_k = x.b_along_k;
  transposed.a_stride = x.b_stride;
  transposed.b = x.a;
  transposed.b_stride = x.a_stride;
  transposed.m = x.n - first;
  transposed.n = x.m;
  transposed.k = x.k;
  transposed.c = sums;
  transposed.c_stride = max_small_size;
  multiply_small_panels<V>(transposed, nullptr, nullptr);
  transpose_sums({sums, max_small_size, static_cast<int>(transposed.m), x.m, x.c + first, x.c_stride});
}

// Computes a small product. `pack_along_k` transposes columns of B along k, and may write to a multiple of 16 steps.
template <class V, void (*pack_along_k)(const PackArgs&), void (*transpose_sums)(const TransposeArgs&)>
void multiply_small_product(const SmallArgs& x) {
  const Index narrow = x.n % V::lanes;
  if (!x.a_along_k && narrow > 0 && narrow <= max_narrow_columns && x.m <= max_small_size &&
      prefers_transposed_columns<V>(x, narrow)) {
    multiply_transposed_columns<V, transpose_sums>(x, x.n - narrow);
    if (narrow == x.n) return;
    SmallArgs full_vectors = x;
    full_vectors.n -= narrow;
    return multiply_small_product<V, pack_along_k, transpose_sums>(full_vectors);
  }
  if (x.b_along_k) return pack_and_multiply_small<V, pack_along_k>(x);
  const int vectors = (static_cast<int>(x.n) + V::lanes - 1) / V::lanes;
  if (vectors > max_small_vectors<V> || x.m > max_small_rows<V>[vectors - 1])
    return multiply_small_panels<V>(x, nullptr, nullptr);
  const int rows = static_cast<int>(x.m), cols = static_cast<int>(x.n);
  find_small_function<V>(x.a_along_k, rows, cols)(x, x.a, x.b, x.b_stride, x.c, cols);
}

}  // namespace ridge::tile::cpu
