// The register block, one template for all instruction sets: rows x vectors sums stay in registers during the loop over
// k.
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

// Issues the prefetches of two `PrefetchPlan`s, one step per four steps of k. Their instructions limit speed if another
// thread shares the core. So addresses advance by a constant stride and are computed from the plan only every
// `linear_steps` steps (`recompute_addresses`). With 8 lanes the loads are the limit (two start per cycle): addresses
// are never recomputed, and prefetches of rows in place are only approximate.
template <class V, bool packed> struct PrefetchCursor {
  static constexpr Index linear_steps = V::lanes == 8 ? std::numeric_limits<Index>::max() : PrefetchPlan::linear_steps;
  PrefetchPlan a, b;
  Index line_a, line_b = 0;
  const char *address_a, *address_b;
  Index step_a, step_b;
  [[gnu::always_inline]] PrefetchCursor(const PrefetchPlan& prefetch_a, const PrefetchPlan& prefetch_b)
      : a(prefetch_a),
        b(prefetch_b),
        line_a(a.first_line),
        address_a(a.base + (line_a << a.shift)),
        address_b(b.base),
        step_a(V::lanes == 8 ? 0 : a.stride),
        step_b(b.mask == 0 ? 0 : b.stride) {
    if (a.mask == 0) step_a = Index{1} << a.shift;
  }
  [[gnu::always_inline]] void prefetch_step() {
    __builtin_prefetch(address_b, 0, 2);
    __builtin_prefetch(address_b + 64, 0, 2);
    address_b += step_b;
    if (!packed) return;  // A that is read in place is in the cache and needs no prefetch
    __builtin_prefetch(address_a, 0, 2);
    address_a += step_a;
  }
  [[gnu::always_inline]] void recompute_addresses(Index steps_done) {
    if (V::lanes == 8) return;
    line_a += steps_done;
    line_b += steps_done;
    address_a = line_address(a, line_a);
    address_b = line_address(b, line_b);
  }
  [[gnu::always_inline]] void next_panel() {
    b.base += b.panel_bytes;
    address_b = b.base;
    line_b = 0;
    if (V::lanes == 8 && address_a >= a.base + a.packed_bytes) {
      address_a = a.base;
      step_a = 0;
    }
  }
  [[gnu::always_inline]] static const char* line_address(const PrefetchPlan& x, Index s) {
    return x.base + (s & x.mask) * x.stride + ((s & ~x.mask) << x.shift);
  }
};

// True if V has a non-temporal store.
template <class V> constexpr bool can_stream = requires(typename V::Sum* p, typename V::Register x) {
  V::sum_stream(p, x);
};

// True if V stores sums rounded to bf16.
template <class V> constexpr bool can_round = requires(Bf16* p, typename V::Register x) { V::sum_store_rounded(p, x); };

// True if the register block of V can pack B while it multiplies.
template <class V> constexpr bool can_pack_right = requires(Unit* p, typename V::Register x) { V::store_packed(p, x); };

// True if the register block of V can read steps of B by offsets.
template <class V> constexpr bool can_index_right = requires { V::indexes_right; };

// Selects how the register block reads B: steps at a stride, which it may also pack, or steps at offsets.
enum class RightAccess { strided, packing, indexed };

// Returns the argument that selects the first n lanes in the _part functions of V: a mask or n.
template <class V> [[gnu::always_inline]] inline auto partial_lanes(int n) {
  if constexpr (requires { V::part(n); })
    return V::part(n);
  else
    return n;
}

// Prefetches C of one panel: the first and the last column of each row, because rows need not start at a line.
// Prefetching a panel earlier is slower: rows with a power-of-two stride share one L1 set, from which loads of B would
// evict them. Splitting the loop over k to prefetch midway costs a twentieth of the speed if other threads use memory.
template <class V, int rows, int vectors, class T>
[[gnu::always_inline]] inline void prefetch_c(const T* c, Index stride) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += stride) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + V::lanes * vectors - 1, 1);
  }
}

// True if the sums of V start from values that are stored after the panel of A: see Engine::left_tail.
template <class V> constexpr bool has_left_tail = requires { V::left_tail; };

// True if the multiply-add of V can broadcast an operand from memory. That saves an instruction per unit of A but costs
// a load for each use after the first. It is done for every other row, which balances instructions and loads.
template <class V> constexpr bool can_broadcast_from_memory = requires(typename V::Register x, const Unit& at) {
  V::multiply_add_at(x, at, x);
};

// Addresses of the units of A. For A in place seven rows share a pointer: x86 addressing multiplies a stride by 1, 2, 4
// or 8 for free, and 3 and 5 strides are precomputed, so that rows need no addition and no register of their own.
template <int rows, bool packed> struct LeftAddresses {
  const char *first, *eighth;
  Index stride, stride_3, stride_5;
  [[gnu::always_inline]] explicit LeftAddresses(const BlockArgs& x) : LeftAddresses(x.a, x.a_stride) {}
  [[gnu::always_inline]] LeftAddresses(const Unit* a, Index a_stride)
      : first(reinterpret_cast<const char*>(a)),
        eighth(first + (rows > 7 ? 7 * a_stride * Index{sizeof(Unit)} : 0)),
        stride(a_stride * Index{sizeof(Unit)}),
        stride_3(3 * stride),
        stride_5(5 * stride) {
    hide_common_stride();
  }
  [[gnu::always_inline]] const Unit& unit_at(int row, int step) const {
    const Index down[] = {0, stride, 2 * stride, stride_3, 4 * stride, stride_5, 2 * stride_3};
    const Index bytes = packed ? (step * rows + row) * Index{sizeof(Unit)} : down[row % 7] + step * Index{sizeof(Unit)};
    return *reinterpret_cast<const Unit*>((packed || row < 7 ? first : eighth) + bytes);
  }
  [[gnu::always_inline]] void advance_steps(int steps) {
    const Index bytes = (packed ? rows : 1) * steps * Index{sizeof(Unit)};
    first += bytes;
    if (!packed && rows > 7) eighth += bytes;
    hide_common_stride();
  }
  // Hides from the compiler that the strides are multiples of one stride; else it would keep one pointer per row.
  [[gnu::always_inline]] void hide_common_stride() {
    if (!packed) asm("" : "+r"(first), "+r"(eighth), "+r"(stride), "+r"(stride_3), "+r"(stride_5));
  }
};

// Sets the initial values of the sums: zero, or the tail of packed A (Engine::left_tail).
template <class V, int rows, int vectors>
[[gnu::always_inline]] inline void start_sums(const BlockArgs& x, typename V::Register (&sums)[rows][vectors]) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      if constexpr (has_left_tail<V>)
        sums[i][j] = V::broadcast(x.a[x.steps * rows + i]);
      else
        sums[i][j] = V::zero();
    }
}

// Calls step(u) for each step of k, u counted from the current address of A, and issues the prefetches.
template <class V, int rows, bool packed, class Step>
[[gnu::always_inline]] inline void run_steps(Index steps, LeftAddresses<rows, packed>& a,
                                             PrefetchCursor<V, packed>& cursor, const Step& step) {
  for (Index fours = steps / 4; fours > 0;) {
    const Index n = std::min(fours, PrefetchCursor<V, packed>::linear_steps);
    fours -= n;
    for (Index remaining = n; remaining > 0; --remaining) {
      cursor.prefetch_step();
      step(0);
      step(1);
      step(2);
      step(3);
      a.advance_steps(4);
    }
    cursor.recompute_addresses(n);
  }
  for (Index k = steps % 4; k > 0; --k) {
    step(0);
    a.advance_steps(1);
  }
}

// Stores the sums of a panel in C or adds them to C. `last` has the lanes of the last vector that exist.
template <class V, bool edge> struct PanelOutput {
  using Register = typename V::Register;
  using Sum = typename V::Sum;
  Sum* c;
  Index c_stride;
  Bf16* rounded;
  Index rounded_stride;
  decltype(partial_lanes<V>(0)) last;
  bool add, stream;

  template <int rows, int vectors> [[gnu::always_inline]] void store_sums(const Register (&sums)[rows][vectors]) const {
    const auto finish = [&](auto one) __attribute__((always_inline)) {
      Sum* row_c = c;
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i, row_c += c_stride)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) one(row_c + V::lanes * j, sums[i][j], edge && j == vectors - 1);
    };
    if constexpr (can_round<V>) {
      if (rounded != nullptr) return store_rounded_sums(sums);
    }
    if (add) {
      finish([&](Sum * at, Register sum, bool part) __attribute__((always_inline)) {
        if (part)
          V::sum_store_part(at, V::sum_add(sum, V::sum_load_part(at, last)), last);
        else
          V::sum_store(at, V::sum_add(sum, V::sum_load(at)));
      });
    } else {
      finish([&](Sum * at, Register sum, bool part) __attribute__((always_inline)) {
        if (part) return V::sum_store_part(at, sum, last);
        if constexpr (can_stream<V> && !edge) {
          if (stream) return V::sum_stream(at, sum);
        }
        V::sum_store(at, sum);
      });
    }
  }

 private:
  template <int rows, int vectors>
  [[gnu::always_inline]] void store_rounded_sums(const Register (&sums)[rows][vectors]) const {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        const bool part = edge && j == vectors - 1;
        const Sum* const from = c + i * c_stride + V::lanes * j;
        Bf16* const to = rounded + i * rounded_stride + V::lanes * j;
        Register sum = sums[i][j];
        if (add) sum = V::sum_add(sum, part ? V::sum_load_part(from, last) : V::sum_load(from));
        part ? V::sum_store_rounded_part(to, sum, last) : V::sum_store_rounded(to, sum);
      }
  }
};

// Multiplies A with one panel of B. Fields of x are copied to locals, because the compiler must assume that a store to
// C changes x.
template <class V, int rows, int vectors, bool packed, bool edge, RightAccess right>
[[gnu::always_inline]] inline void multiply_panel(const BlockArgs& x, const Unit* b, Unit* keep, typename V::Sum* c,
                                                  Bf16* rounded, bool add, bool stream,
                                                  PrefetchCursor<V, packed>& cursor) {
  constexpr int lanes = V::lanes;
  typename V::Register sums[rows][vectors];
  start_sums<V>(x, sums);
  const auto last = partial_lanes<V>(edge ? x.cols - (vectors - 1) * lanes : lanes);
  const Index b_stride = x.b_stride;
  const Index* b_offset = x.b_offsets;
  LeftAddresses<rows, packed> a(x);
  const auto step = [&](int u) __attribute__((always_inline)) {
    typename V::Register columns[vectors];
    if constexpr (right == RightAccess::packing) __builtin_prefetch(b + 4 * b_stride, 0, 3);
    const Unit* const step_b = right == RightAccess::indexed ? b + *b_offset++ : b;
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      columns[j] = edge && j == vectors - 1 ? V::load_part(step_b + lanes * j, last) : V::load(step_b + lanes * j);
    }
    if constexpr (right != RightAccess::indexed) b += b_stride;
    if constexpr (right == RightAccess::packing) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) V::store_packed(keep + lanes * j, columns[j]);
      keep += 2 * lanes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Unit& left_unit = a.unit_at(i, u);
      if constexpr (can_broadcast_from_memory<V>) {
        if (i % 2 == 1) {
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add_at(sums[i][j], left_unit, columns[j]);
          continue;
        }
      }
      const auto left = V::broadcast(left_unit);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add(sums[i][j], left, columns[j]);
    }
  };
  run_steps(x.steps, a, cursor, step);
  const PanelOutput<V, edge> output{c, x.c_stride, rounded, x.rounded_stride, last, add, stream};
  output.store_sums(sums);
}

template <class V, int rows, int vectors, bool packed, bool edge, RightAccess right>
[[gnu::always_inline]] inline void multiply_panels(const BlockArgs& x) {
  constexpr int width = V::lanes * vectors;
  auto* c = static_cast<typename V::Sum*>(x.c);
  const Unit* b = x.b;
  Unit* keep = x.packed_out;
  Bf16* rounded = x.rounded;
  const bool add = x.accumulate, stream = can_stream<V> && x.non_temporal;
  const Index panel_units = x.panel_stride;
  PrefetchCursor<V, packed> cursor(x.prefetch_a, x.prefetch_b);
  for (int panel = x.panels;;) {
    if (!stream && (add || rounded == nullptr)) prefetch_c<V, rows, vectors>(c, x.c_stride);
    if (can_round<V> && rounded != nullptr) prefetch_c<V, rows, vectors>(rounded, x.rounded_stride);
    multiply_panel<V, rows, vectors, packed, edge, right>(x, b, keep, c, rounded, add, stream, cursor);
    if (--panel <= 0) return;
    b += panel_units;
    c += width;
    if (can_round<V> && rounded != nullptr) rounded += width;
    cursor.next_panel();
    if constexpr (right == RightAccess::packing) keep += x.packed_out_stride;
  }
}

// A separate function: together with the loop that does not pack, the compiler would copy sums between registers.
template <class V, int rows, int vectors, bool edge> [[gnu::noinline]] void multiply_and_pack(const BlockArgs& x) {
  multiply_panels<V, rows, vectors, true, edge, RightAccess::packing>(x);
}

template <class V, int rows, int vectors, bool packed, bool edge>
[[gnu::noinline]] void multiply_indexed(const BlockArgs& x) {
  multiply_panels<V, rows, vectors, packed, edge, RightAccess::indexed>(x);
}

template <class V, int rows, int vectors, bool packed, bool edge> void multiply_block(const BlockArgs& x) {
  if constexpr (packed && can_pack_right<V>) {
    if (x.packed_out != nullptr) return multiply_and_pack<V, rows, vectors, edge>(x);
  }
  if constexpr (can_index_right<V>) {
    if (x.b_offsets != nullptr) return multiply_indexed<V, rows, vectors, packed, edge>(x);
  }
  multiply_panels<V, rows, vectors, packed, edge, RightAccess::strided>(x);
}

using BlockFunction = void (*)(const BlockArgs&);

template <class V, int vectors, bool packed, bool edge, int... i>
constexpr std::array<BlockFunction, sizeof...(i)> block_functions(std::integer_sequence<int, i...>) {
  return {multiply_block<V, i + 1, vectors, packed, edge>...};
}

// Calls the instance of multiply_block for x.rows and x.cols. `in_place` is true if A may be unpacked.
template <class V, int max_rows, bool in_place> void dispatch_block(const BlockArgs& x) {
  constexpr auto rows = std::make_integer_sequence<int, max_rows>{};
  static constexpr std::array<BlockFunction, max_rows> table[8] = {
      block_functions<V, 1, true, false>(rows),      block_functions<V, 1, true, true>(rows),
      block_functions<V, 2, true, false>(rows),      block_functions<V, 2, true, true>(rows),
      block_functions<V, 1, !in_place, false>(rows), block_functions<V, 1, !in_place, true>(rows),
      block_functions<V, 2, !in_place, false>(rows), block_functions<V, 2, !in_place, true>(rows),
  };
  const int wide = x.cols > V::lanes ? 1 : 0, edge = x.cols % V::lanes != 0 ? 1 : 0;
  table[(x.left_packed ? 0 : 4) + wide * 2 + edge][x.rows - 1](x);
}

}  // namespace ridge::tile::cpu
