// Tiles in registers for kernels that run in steps: M x N sums in the layout of wgmma, one number for each row, and
// left operands of a product, two numbers in each register. Each group of 128 threads owns 64 rows. A thread owns two
// adjacent columns of every eight in rows r and r + 8: its number i is in row r + 8 * (i / 2 % 2) and i / 4 * 8 + i % 2
// columns after its first column.
#pragma once

#include "ridge/tile/sm90/epilogue.h"
#include "ridge/tile/steps.h"

namespace ridge::tile {

// One number for each row, held by the four threads of the row: the same number, or partial sums if `is_partial`.
template <int M, int WarpgroupsPerTile> struct Accumulator<M, 1, WarpgroupsPerTile, float> {
  static constexpr int rows = M, cols = 1, size = 2;
  float v[size];
  bool is_partial = false;
  TILE_FN Accumulator() : v{} {}
  TILE_FN Accumulator(Zero) : v{} {}
  TILE_FN Accumulator(NegativeInfinity) {
    v[0] = -INFINITY;
    v[1] = -INFINITY;
  }
};

// A left operand of a product, in registers.
template <int M, int N, int WarpgroupsPerTile, class T> struct RegisterOperand {
  static_assert(sizeof(T) == 2, "a register has two numbers of 16 bits");
  static constexpr int rows = M, cols = N, size = M * N / (WarpgroupsPerTile * 256);
  using type = T;
  std::uint32_t v[size];
};

// Returns 2^x with a relative error of 2^-22.
TILE_FN float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns 1 / x with a relative error of 2^-23.
TILE_FN float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

TILE_FN float log_of(float x) { return logf(x); }

namespace sm90 {

template <class X> inline constexpr bool is_per_row = X::cols == 1;

TILE_FN int first_row_of_thread() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }
TILE_FN int first_col_of_thread() { return threadIdx.x % 4 * 2; }

template <class F> TILE_FN float reduce_four_lanes(float x, const F& f) {
  x = f(x, __shfl_xor_sync(~0u, x, 1));
  return f(x, __shfl_xor_sync(~0u, x, 2));
}
TILE_FN float max_of(float x, float y) { return fmaxf(x, y); }
TILE_FN float sum_of(float x, float y) { return x + y; }

// Adds the partial sums of the four threads of each row, if x has them.
template <int M, int S> TILE_FN void reduce_row_partials(Accumulator<M, 1, S>& x) {
  if (!x.is_partial) return;
  for (float& each : x.v) each = reduce_four_lanes(each, sum_of);
  x.is_partial = false;
}
template <int M, int N, int S, class T> TILE_FN void reduce_row_partials(Accumulator<M, N, S, T>&) {}

// One number for each column, read from shared memory when needed, because products need the registers.
struct ColumnValues {
  const float* of_thread;  // address of the number of this thread's first column
};
TILE_FN void reduce_row_partials(const ColumnValues&) {}
template <int M, int N, int S, class T> TILE_FN void reduce_row_partials(const RegisterOperand<M, N, S, T>&) {}
template <class X> inline constexpr bool is_register_operand = false;
template <int M, int N, int S, class T> inline constexpr bool is_register_operand<RegisterOperand<M, N, S, T>> = true;

// Returns the number of x that is combined with number i of a tile: at the same position, of the same row, or of the
// same column.
template <class X> TILE_FN float operand_at(const X& x, int i) {
  if constexpr (std::is_same_v<std::remove_const_t<X>, ColumnValues>) {
    const float2 two = *reinterpret_cast<const float2*>(x.of_thread + i / 4 * 8);
    return i % 2 == 0 ? two.x : two.y;
  } else if constexpr (is_register_operand<std::remove_const_t<X>>) {
    const float2 two = unpack_pair<typename X::type>(x.v[i / 2]);
    return i % 2 == 0 ? two.x : two.y;
  } else if constexpr (is_per_row<X>)
    return x.v[i / 2 % 2];
  else
    return x.v[i];
}

// Sets x = f(x, others…) for each number; an operand with one number per row applies to all of the row.
template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) {
  reduce_row_partials(x);
  (reduce_row_partials(others), ...);
#pragma unroll
  for (int i = 0; i < X::size; ++i) {
    if constexpr (is_per_row<X>)
      x.v[i] = f(x.v[i], others.v[i]...);
    else
      x.v[i] = f(x.v[i], operand_at(others, i)...);
  }
}
// Sets masked numbers to `outside`; `columns(row)` returns the range of unmasked columns of a row.
template <class X, class F> TILE_FN void mask_columns(X& x, int first_row, const F& columns, float outside) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const IntRange unmasked = columns(first_row + first_row_of_thread() + 8 * r);
    const int begin = unmasked.begin - first_col_of_thread(), end = unmasked.end - first_col_of_thread();
#pragma unroll
    for (int i = 0; i < X::size; i += 4)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int col = i * 2 + e;
        if (col < begin || col >= end) x.v[i + 2 * r + e] = outside;
      }
  }
}
// True if f is true for any number in the warp's 16 rows; all threads of the warp get the same result.
template <class X, class F> TILE_FN bool has_any(const X& x, const F& f) {
  bool holds = false;
#pragma unroll
  for (int i = 0; i < X::size; ++i) holds = holds || f(x.v[i]);
  return __any_sync(~0u, holds);
}

// Sets into = max(into, all numbers of the row).
template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Max) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float largest = x.v[2 * r];
#pragma unroll
    for (int i = 0; i < X::size; i += 4) largest = fmaxf(largest, fmaxf(x.v[i + 2 * r], x.v[i + 2 * r + 1]));
    into.v[r] = fmaxf(into.v[r], reduce_four_lanes(largest, max_of));
  }
}
// Sets into = into * times + the row's sum. The four threads of the row keep partial sums until `into` is read.
template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Add, const Row& times) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < X::size; i += 4) {
      sum += x.v[i + 2 * r];
      sum += x.v[i + 2 * r + 1];
    }
    into.v[r] = fmaf(into.v[r], times.v[r], sum);
  }
  into.is_partial = true;
}

template <int M, int N, int S, class T>
TILE_FN void copy(RegisterOperand<M, N, S, T>& to, const Accumulator<M, N, S>& from) {
#pragma unroll
  for (int i = 0; i < to.size; ++i) to.v[i] = pack_pair<T>(from.v[2 * i], from.v[2 * i + 1]);
}

}  // namespace sm90
}  // namespace ridge::tile
