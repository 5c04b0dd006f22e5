// What becomes of the sums when they are not simply rounded (epilogue.h), in any of three formats, at any alignment.
// Registers can only be indexed by constants, so 64 x 32 sums at a time go through shared memory (8 KiB, 16-byte units
// exchanged within a row so that no two rows share a bank) and a plain loop takes them from there: one short loop
// instead of thousands of unrolled lines in each of a hundred kernels.
#pragma once

#include "ridge/base/float16.h"
#include "ridge/tile/target/sm90/barrier.h"

namespace ridge::tile::sm90 {

TILE_FN float read_stored(Stored stored, const void* data, Index i) {
  if (stored == Stored::f32) return static_cast<const float*>(data)[i];
  if (stored == Stored::bf16) return to_float(static_cast<const Bf16*>(data)[i]);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<const F16*>(data)[i].bits));
  return x;
}
TILE_FN std::uint16_t to_stored(Stored stored, float x) {
  std::uint16_t bits;
  if (stored == Stored::bf16)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

struct Math {
  TILE_FN static float all(float x) { return x; }
  TILE_FN static float activated(Activation activation, float x) {
    switch (activation) {
      case Activation::none: return x;
      case Activation::relu: return x < 0 ? 0 : x;  // NaN stays
      case Activation::gelu: return 0.5F * x * (1 + erff(x * 0.70710678F));
      case Activation::gelu_tanh: return 0.5F * x * (1 + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
      case Activation::silu: return x / (1 + expf(-x));
    }
    return x;
  }
};

TILE_FN float finished(const OutputOnTarget& o, float x, Index row, Index col, Index batch) {
  return tile::finished<Math>(o, x, [&](const Operand& p) {
    return read_stored(p.stored, p.data, batch * p.batch_stride + row * p.row_stride + col * p.col_stride);
  });
}

// `count` (1, 2 or 4) neighbours of a row, all inside; more than one only where the output takes vectors.
template <int count, class View>
TILE_FN void put_finished(const View& view, const float* x, Index row, Index col, Index batch) {
  const OutputOnTarget& o = view.on_target;
  const Index i = batch * view.batch_stride + row * view.row_stride + col;
  float y[count];
#pragma unroll
  for (int q = 0; q < count; ++q) y[q] = finished(o, x[q], row, col + q, batch);
  if (o.stored == Stored::f32) {
    float* const to = reinterpret_cast<float*>(view.data) + i;
    if constexpr (count == 4)
      *reinterpret_cast<float4*>(to) = make_float4(y[0], y[1], y[2], y[3]);
    else if constexpr (count == 2)
      *reinterpret_cast<float2*>(to) = make_float2(y[0], y[1]);
    else
      *to = y[0];
    return;
  }
  std::uint16_t* const to = reinterpret_cast<std::uint16_t*>(view.data) + i;
  std::uint16_t bits[count];
#pragma unroll
  for (int q = 0; q < count; ++q) bits[q] = to_stored(o.stored, y[q]);
  if constexpr (count == 4)
    *reinterpret_cast<ushort4*>(to) = make_ushort4(bits[0], bits[1], bits[2], bits[3]);
  else if constexpr (count == 2)
    *reinterpret_cast<ushort2*>(to) = make_ushort2(bits[0], bits[1]);
  else
    *to = bits[0];
}

// Two sums that are neighbours along the tile's columns, as far as they lie inside.
template <bool swap, class View>
TILE_FN void put_two(const View& view, const float* x, Index row, Index col, Index batch) {
  if (!swap && view.on_target.vectors && row < view.rows && col + 2 <= view.cols)
    return put_finished<2>(view, x, row, col, batch);
#pragma unroll
  for (int q = 0; q < 2; ++q) {  // swapped: the tile's rows are the output's columns
    const Index r = swap ? col + q : row, c = swap ? row : col + q;
    if (r < view.rows && c < view.cols) put_finished<1>(view, x + q, r, c, batch);
  }
}

// 64 rows and `width` (at most 32) columns of sums, v as wgmma leaves them, into the 8 KiB at `staging`: element (r, c)
// at float r * 32 + (c / 4 ^ r % 8) * 4 + c % 4.
template <int width> TILE_FN void stage_sums(float* staging, const float* v) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < width / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = warp * 16 + half * 8 + lane / 4, unit = j * 2 + lane % 4 / 2;
      *reinterpret_cast<float2*>(staging + r * 32 + (unit ^ (r % 8)) * 4 + lane % 2 * 2) =
          make_float2(v[j * 4 + half * 2], v[j * 4 + half * 2 + 1]);
    }
}

// From there to memory. (row, col): where the first staged element lies in the accumulator's output.
template <bool swap, class View>
TILE_FN void write_staged(const View& view, const float* staging, int width, Index row, Index col, Index batch) {
  if (!swap && !view.on_target.vectors) {  // rows that start anywhere: a warp writes neighbours, element by element
#pragma unroll 1
    for (int e = threadIdx.x % 128; e < 64 * width; e += 128) {
      const int r = e / width, c = e % width;
      const float x = staging[r * 32 + ((c / 4) ^ (r % 8)) * 4 + c % 4];
      if (row + r < view.rows && col + c < view.cols) put_finished<1>(view, &x, row + r, col + c, batch);
    }
    return;
  }
  const int units = width / 4;
#pragma unroll 1
  for (int e = threadIdx.x % 128; e < 64 * units; e += 128) {
    const int r = swap ? e % 64 : e / units, unit = swap ? e / 64 : e % units;
    const float4 four = *reinterpret_cast<const float4*>(staging + r * 32 + (unit ^ (r % 8)) * 4);
    const float x[4] = {four.x, four.y, four.z, four.w};
    const Index y = row + r, c = col + unit * 4;
    if constexpr (swap) {  // the accumulator's rows are the output's columns
#pragma unroll
      for (int q = 0; q < 4; ++q)
        if (c + q < view.rows && y < view.cols) put_finished<1>(view, x + q, c + q, y, batch);
    } else if (y < view.rows && c + 4 <= view.cols) {
      put_finished<4>(view, x, y, c, batch);
    } else if (y < view.rows) {
#pragma unroll 1
      for (int q = 0; c + q < view.cols; ++q)
        put_finished<1>(view, staging + r * 32 + (unit ^ (r % 8)) * 4 + q, y, c + q, batch);
    }
  }
}

}  // namespace ridge::tile::sm90
