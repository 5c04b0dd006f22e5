// The register block, one template for all instruction sets: rows x vectors sums stay in registers in the loop over k.
// Each step takes `vectors` loads of B, `rows` broadcasts of A and rows*vectors fused multiply-adds. With AVX-512, 14 x
// 32 sums take 28 of 32 registers, with 28 multiply-adds per 16 loads (23 if some multiply-adds broadcast A
// themselves). Sums start at zero and C is added once, at the end. V defines the vectors: lanes, zero, load, load_part,
// broadcast, multiply_add, and for C sum_load, sum_store and their _part forms. V must be a type of an unnamed
// namespace, so that the linker cannot use this code for another file's instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

// Issues the prefetches of two `PrefetchPlan`s, one step per four steps of k. Its cost is instructions, which limit
// speed if another thread shares the core. So addresses advance by a constant stride and are computed from the plan
// only every `linear_steps` steps (`recompute_addresses`). With 8 lanes the loads, of which two start per cycle, are
// the limit: addresses are never recomputed, and prefetches of rows in place are only approximate.
template <class V, bool packed> struct Fetching {
  static constexpr Index straight = V::lanes == 8 ? std::numeric_limits<Index>::max() : Prefetch::straight;
  Prefetch a, b;
  Index sa, sb = 0;
  const char *to_prefetch_a, *to_prefetch_b;
  Index step_a, step_b;
  [[gnu::always_inline]] Fetching(const Prefetch& prefetch_a, const Prefetch& prefetch_b)
      : a(prefetch_a),
        b(prefetch_b),
        sa(a.from),
        to_prefetch_a(a.base + (sa << a.shift)),
        to_prefetch_b(b.base),
        step_a(V::lanes == 8 ? 0 : a.stride),
        step_b(b.mask == 0 ? 0 : b.stride) {
    if (a.mask == 0) step_a = Index{1} << a.shift;
  }
  [[gnu::always_inline]] void next() {
    __builtin_prefetch(to_prefetch_b, 0, 2);
    __builtin_prefetch(to_prefetch_b + 64, 0, 2);
    to_prefetch_b += step_b;
    if (!packed) return;  // A read in place is in the cache and has no plan
    __builtin_prefetch(to_prefetch_a, 0, 2);
    to_prefetch_a += step_a;
  }
  [[gnu::always_inline]] void turn(Index walked) {
    if (V::lanes == 8) return;
    sa += walked;
    sb += walked;
    to_prefetch_a = line(a, sa);
    to_prefetch_b = line(b, sb);
  }
  [[gnu::always_inline]] void next_panel() {
    b.base += b.panel;
    to_prefetch_b = b.base;
    sb = 0;
    if (V::lanes == 8 && to_prefetch_a >= a.base + a.bytes) {
      to_prefetch_a = a.base;
      step_a = 0;
    }
  }
  [[gnu::always_inline]] static const char* line(const Prefetch& x, Index s) {
    return x.base + (s & x.mask) * x.stride + ((s & ~x.mask) << x.shift);
  }
};

// True if V has a non-temporal store.
template <class V> constexpr bool streams = requires(typename V::Sum* p, typename V::Register x) {
  V::sum_stream(p, x);
};

// True if the register block of V can pack B while it multiplies.
template <class V> constexpr bool keeps = requires(Unit* p, typename V::Register x) { V::keep(p, x); };

// Returns the first n lanes in the form that the _part functions of V need: a mask or n itself.
template <class V> [[gnu::always_inline]] inline auto part_of(int n) {
  if constexpr (requires { V::part(n); })
    return V::part(n);
  else
    return n;
}

// Prefetches C of one panel: first and last column of each row, because rows need not start at a line. Prefetching a
// panel earlier fails: rows with a power-of-two stride share one L1 set, from which loads of B would evict them.
// Splitting the loop over k to prefetch midway costs a twentieth of the speed if other threads use memory.
template <class V, int rows, int vectors>
[[gnu::always_inline]] inline void fetch(const typename V::Sum* c, Index stride) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += stride) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + V::lanes * vectors - 1, 1);
  }
}

// True if the sums of V start from the values after the panel of A: see Engine::left_tail.
template <class V> constexpr bool starts = requires { V::left_tail; };

// True if the multiply-add of V can broadcast an operand from memory. That saves an instruction per unit of A but costs
// a load for each use after the first. Every other row does it, which balances instructions and loads.
template <class V> constexpr bool broadcasts = requires(typename V::Register x, const Unit& at) {
  V::multiply_add_at(x, at, x);
};

// Addresses of the units of A. For A in place seven rows share a pointer: x86 addressing multiplies a stride by 1, 2, 4
// or 8 for free, and 3 and 5 strides are precomputed, so that rows need no addition and no register of their own.
template <int rows, bool packed> struct LeftRows {
  const char *first, *eighth;
  Index stride, three, five;
  [[gnu::always_inline]] explicit LeftRows(const Block& x)
      : first(reinterpret_cast<const char*>(x.a)),
        eighth(first + (rows > 7 ? 7 * x.a_stride * Index{sizeof(Unit)} : 0)),
        stride(x.a_stride * Index{sizeof(Unit)}),
        three(3 * stride),
        five(5 * stride) {
    apart();
  }
  [[gnu::always_inline]] const Unit& at(int row, int step) const {
    const Index down[] = {0, stride, 2 * stride, three, 4 * stride, five, 2 * three};
    const Index bytes = packed ? (step * rows + row) * Index{sizeof(Unit)} : down[row % 7] + step * Index{sizeof(Unit)};
    return *reinterpret_cast<const Unit*>((packed || row < 7 ? first : eighth) + bytes);
  }
  [[gnu::always_inline]] void advance(int steps) {
    const Index bytes = (packed ? rows : 1) * steps * Index{sizeof(Unit)};
    first += bytes;
    if (!packed && rows > 7) eighth += bytes;
    apart();
  }
  // Hides that the values are multiples of one stride; else the compiler would keep one pointer per row.
  [[gnu::always_inline]] void apart() {
    if (!packed) asm("" : "+r"(first), "+r"(eighth), "+r"(stride), "+r"(three), "+r"(five));
  }
};

// Fields of x are copied to locals, because the compiler must assume that a store to C changes x.
template <class V, int rows, int vectors, bool packed, bool edge, bool keeping>
[[gnu::always_inline]] inline void multiply_panel(const Block& x, const Unit* b, Unit* keep, typename V::Sum* c,
                                                  bool add, bool stream, Fetching<V, packed>& fetching) {
  constexpr int lanes = V::lanes;
  typename V::Register sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      if constexpr (starts<V>)
        sums[i][j] = V::broadcast(x.a[x.steps * rows + i]);
      else
        sums[i][j] = V::zero();
    }
  const Index c_stride = x.c_stride;
  const auto last = part_of<V>(edge ? x.cols - (vectors - 1) * lanes : lanes);
  const Index b_stride = x.b_stride;
  LeftRows<rows, packed> a(x);
  const auto step = [&](int u) __attribute__((always_inline)) {
    typename V::Register columns[vectors];
    if constexpr (keeping) __builtin_prefetch(b + 4 * b_stride, 0, 3);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      columns[j] = edge && j == vectors - 1 ? V::load_part(b + lanes * j, last) : V::load(b + lanes * j);
    }
    b += b_stride;
    if constexpr (keeping) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) V::keep(keep + lanes * j, columns[j]);
      keep += 2 * lanes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Unit& at = a.at(i, u);
      if constexpr (broadcasts<V>) {
        if (i % 2 == 1) {
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add_at(sums[i][j], at, columns[j]);
          continue;
        }
      }
      const auto left = V::broadcast(at);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add(sums[i][j], left, columns[j]);
    }
  };
  for (Index fours = x.steps / 4; fours > 0;) {
    const Index n = std::min(fours, Fetching<V, packed>::straight);
    fours -= n;
    for (Index left = n; left > 0; --left) {
      fetching.next();
      step(0);
      step(1);
      step(2);
      step(3);
      a.advance(4);
    }
    fetching.turn(n);
  }
  for (Index k = x.steps % 4; k > 0; --k) {
    step(0);
    a.advance(1);
  }
  const auto finish = [&](auto one) __attribute__((always_inline)) {
    typename V::Sum* at = c;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i, at += c_stride)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) one(at + lanes * j, sums[i][j], edge && j == vectors - 1);
  };
  if (add) {
    finish([&](typename V::Sum * at, typename V::Register sum, bool part) __attribute__((always_inline)) {
      if (part)
        V::sum_store_part(at, V::sum_add(sum, V::sum_load_part(at, last)), last);
      else
        V::sum_store(at, V::sum_add(sum, V::sum_load(at)));
    });
  } else {
    finish([&](typename V::Sum * at, typename V::Register sum, bool part) __attribute__((always_inline)) {
      if (part) return V::sum_store_part(at, sum, last);
      if constexpr (streams<V> && !edge) {
        if (stream) return V::sum_stream(at, sum);
      }
      V::sum_store(at, sum);
    });
  }
}

template <class V, int rows, int vectors, bool packed, bool edge, bool keeping>
[[gnu::always_inline]] inline void multiply_panels(const Block& x) {
  constexpr int width = V::lanes * vectors;
  auto* c = static_cast<typename V::Sum*>(x.c);
  const Unit* b = x.b;
  Unit* keep = x.keep;
  const bool add = x.add, stream = streams<V> && x.stream;
  const Index panel_units = x.panel_units;
  Fetching<V, packed> fetching(x.prefetch_a, x.prefetch_b);
  for (int panel = x.panels;;) {
    if (!stream) fetch<V, rows, vectors>(c, x.c_stride);
    multiply_panel<V, rows, vectors, packed, edge, keeping>(x, b, keep, c, add, stream, fetching);
    if (--panel <= 0) return;
    b += panel_units;
    c += width;
    fetching.next_panel();
    if constexpr (keeping) keep += x.keep_units;
  }
}

// Kept separate: in one function with the other loop, the compiler would copy the sums of both between registers.
template <class V, int rows, int vectors, bool edge> [[gnu::noinline]] void multiply_and_keep(const Block& x) {
  multiply_panels<V, rows, vectors, true, edge, true>(x);
}

template <class V, int rows, int vectors, bool packed, bool edge> void multiply_block(const Block& x) {
  if constexpr (packed && keeps<V>) {
    if (x.keep != nullptr) return multiply_and_keep<V, rows, vectors, edge>(x);
  }
  multiply_panels<V, rows, vectors, packed, edge, false>(x);
}

using BlockFunction = void (*)(const Block&);

template <class V, int vectors, bool packed, bool edge, int... i>
constexpr std::array<BlockFunction, sizeof...(i)> block_rows(std::integer_sequence<int, i...>) {
  return {multiply_block<V, i + 1, vectors, packed, edge>...};
}

// Calls the instance for x.rows and x.cols. `in_place`: A may be unpacked.
template <class V, int most_rows, bool direct> void block(const Block& x) {
  constexpr auto rows = std::make_integer_sequence<int, most_rows>{};
  static constexpr std::array<BlockFunction, most_rows> table[8] = {
      block_rows<V, 1, true, false>(rows),    block_rows<V, 1, true, true>(rows),
      block_rows<V, 2, true, false>(rows),    block_rows<V, 2, true, true>(rows),
      block_rows<V, 1, !direct, false>(rows), block_rows<V, 1, !direct, true>(rows),
      block_rows<V, 2, !direct, false>(rows), block_rows<V, 2, !direct, true>(rows),
  };
  const int wide = x.cols > V::lanes ? 1 : 0, edge = x.cols % V::lanes != 0 ? 1 : 0;
  table[(x.packed ? 0 : 4) + wide * 2 + edge][x.rows - 1](x);
}

}  // namespace ridge::tile::cpu
