// Epilogues on Hopper (tile/epilogue.h) in any of three formats and at any alignment. Registers can only be indexed by
// constants. So each warp writes 16 x 16 sums at a time to its own 1 KiB of shared memory, and a loop reads them: a
// short loop replaces thousands of unrolled instructions in each of a hundred kernels. A thread applies each operation
// to eight contiguous elements, because too few warps run to hide the latency of instruction cache misses and of loads
// from L2.
#pragma once

#include "ridge/base/operand_type.h"
#include "ridge/tile/sm90/barrier.h"

namespace ridge::tile::sm90 {

// Calls f.template operator()<T>() with the type of a 16-bit format. The host passes no other (`to_device_format`).
template <class F> TILE_FN auto dispatch_sixteen_bits(StorageFormat format, const F& f) {
  return format == StorageFormat::bf16 ? f.template operator()<Bf16>() : f.template operator()<F16>();
}

TILE_FN float widen(Bf16 x) { return to_float(x); }
TILE_FN float widen(F16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
template <class T> TILE_FN T round_to(float x) {
  static_assert(SixteenBitFloats::stores_as<T>() || std::is_same_v<T, E4m3>, "round_to: expected bf16, f16 or e4m3");
  T y;
  if constexpr (std::is_same_v<T, Bf16>) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  } else if constexpr (std::is_same_v<T, F16>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  } else {
    std::uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
    y.bits = static_cast<std::uint8_t>(two);
  }
  return y;
}
TILE_FN float widen(E4m3 x) {
  std::uint32_t two;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(static_cast<std::uint16_t>(x.bits)));
  return widen(F16{static_cast<std::uint16_t>(two)});
}
TILE_FN float read_stored(StorageFormat format, const void* data, Index i) {
  if (format == StorageFormat::f32) return static_cast<const float*>(data)[i];
  if (format == StorageFormat::e4m3) return widen(static_cast<const E4m3*>(data)[i]);
  return dispatch_sixteen_bits(format, [&]<class T>() { return widen(static_cast<const T*>(data)[i]); });
}
TILE_FN std::uint16_t to_stored(StorageFormat format, float x) {
  return dispatch_sixteen_bits(format, [&]<class T>() { return round_to<T>(x).bits; });
}

// unpack_pair and pack_pair convert between two floats and two 16-bit numbers in one register.
template <class T> TILE_FN float2 unpack_pair(std::uint32_t two) {
  static_assert(SixteenBitFloats::stores_as<T>(), "unpack_pair: expected bf16 or f16");
  if constexpr (std::is_same_v<T, Bf16>) return {__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u)};
  float2 x;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(x.x), "=f"(x.y)
      : "r"(two));
  return x;
}
template <class T> TILE_FN std::uint32_t pack_pair(float low, float high) {
  static_assert(SixteenBitFloats::stores_as<T>(), "pack_pair: expected bf16 or f16");
  std::uint32_t two;
  if constexpr (std::is_same_v<T, Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}

template <int n> struct EpilogueVector {  // elements that a thread processes together
  float v[n];
  template <class F> TILE_FN static EpilogueVector of(const F& f) {
    EpilogueVector out;
#pragma unroll
    for (int q = 0; q < n; ++q) out.v[q] = f(q);
    return out;
  }
  TILE_FN EpilogueVector operator*(const EpilogueVector& y) const {
    return of([&](int q) { return v[q] * y.v[q]; });
  }
  TILE_FN EpilogueVector operator+(const EpilogueVector& y) const {
    return of([&](int q) { return v[q] + y.v[q]; });
  }
  TILE_FN EpilogueVector operator*(float y) const {
    return of([&](int q) { return v[q] * y; });
  }
  TILE_FN friend EpilogueVector operator*(float y, const EpilogueVector& x) { return x * y; }
};

// Activations in at most 15 instructions, two of them on the special function unit. Errors are below 2^-20 |x|.
struct Math {
  TILE_FN static float all(float x) { return x; }
  template <int n>
  TILE_FN static EpilogueVector<n> apply_activation(EpilogueActivation activation, const EpilogueVector<n>& x) {
    const auto each = [&](auto f) { return EpilogueVector<n>::of([&](int q) { return f(x.v[q]); }); };
    switch (activation) {
      case EpilogueActivation::none: return x;
      case EpilogueActivation::relu: return each([](float y) { return keep_positive(y); });
      case EpilogueActivation::gelu: return each([](float y) { return fast_gelu(y); });
      case EpilogueActivation::gelu_tanh:
        return each([](float y) { return times_sigmoid(y, y * fmaf(0.10294324F, y * y, 2.3022082F)); });
      case EpilogueActivation::silu: return each([](float y) { return times_sigmoid(y, y * 1.44269504F); });
    }
    return x;
  }
  TILE_FN static float apply_activation(EpilogueActivation activation, float x) {
    return apply_activation(activation, EpilogueVector<1>{{x}}).v[0];
  }

 private:
  TILE_FN static float keep_positive(float x) {  // max(x, 0), but NaN for NaN
    float y;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
  }
  TILE_FN static float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  TILE_FN static float fast_inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  // x / (1 + 2^-z)
  TILE_FN static float times_sigmoid(float x, float z) { return x * fast_inverse(1 + exp2_of(-z)); }
  // Returns max(x, 0) - |x| Phi(-|x|), with Phi by Abramowitz and Stegun 7.1.26. The second term is 0 from x = 14 on;
  // clamping x there avoids infinity times 0.
  TILE_FN static float fast_gelu(float x) {
    const float below = fminf(x, 14), a = fabsf(below), t = fast_inverse(fmaf(0.23164189F, a, 1));
    float p = 0.5307027145F;
    p = fmaf(p, t, -0.7265760135F);
    p = fmaf(p, t, 0.7107068705F);
    p = fmaf(p, t, -0.142248368F);
    p = fmaf(p, t, 0.127414796F);
    return fmaf(-a, p * t * exp2_of(a * a * -0.72134752F), keep_positive(x));
  }
};

// Vector type for copies of `words` 32-bit words, at most 16 bytes at a time.
template <int words> inline constexpr int words_at_once = words < 4 ? words : 4;
template <int words> struct alignas(words_at_once<words> * 4) WordBlock { std::uint32_t x[words_at_once<words>]; };
template <int words> TILE_FN bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(WordBlock<words>) == 0;
}
template <int words> TILE_FN void copy_words(std::uint32_t* to, const void* from) {
#pragma unroll
  for (int i = 0; i < words; i += words_at_once<words>) {
    const auto x = static_cast<const WordBlock<words>*>(from)[i / words_at_once<words>];
#pragma unroll
    for (int j = 0; j < words_at_once<words>; ++j) to[i + j] = x.x[j];
  }
}
template <int words> TILE_FN void write_words(void* to, const std::uint32_t* from) {
#pragma unroll
  for (int i = 0; i < words; i += words_at_once<words>) {
    WordBlock<words> x;
#pragma unroll
    for (int j = 0; j < words_at_once<words>; ++j) x.x[j] = from[i + j];
    static_cast<WordBlock<words>*>(to)[i / words_at_once<words>] = x;
  }
}

template <class T, int count> TILE_FN EpilogueVector<count> widen_pairs(const std::uint32_t* two) {
  return EpilogueVector<count>::of([&](int q) {
    const float2 both = unpack_pair<T>(two[q / 2]);
    return q % 2 ? both.y : both.x;
  });
}

// Direction of a thread's elements: consecutive columns of a row, or consecutive rows of a column.
enum class RunDirection { row, column };
// The `count` (1, 2 or 8) elements of the output that a thread processes together.
template <int count, RunDirection run> struct EpilogueRun {
  static constexpr int pairs = (count + 1) / 2;
  Index row, col, batch;
  int inside_count;  // number of the elements that are inside the matrix

  template <class View> TILE_FN static EpilogueRun in(const View& view, Index row, Index col, Index batch) {
    const Index left = run == RunDirection::row ? view.cols - col : view.rows - row;
    const bool begins = row < view.rows && col < view.cols;
    return {row, col, batch, begins ? left < count ? static_cast<int>(left) : count : 0};
  }
  TILE_FN EpilogueVector<count> operator()(
      const EpilogueInput& p) const {  // returns the values of an operand at these elements
    const Index first = batch * p.batch_stride + row * p.row_stride + col * p.col_stride;
    const Index step = run == RunDirection::row ? p.col_stride : p.row_stride;
    if (p.format == StorageFormat::f32) return read_floats(static_cast<const float*>(p.data) + first, step);
    std::uint32_t two[pairs];
    read_shorts(two, static_cast<const std::uint16_t*>(p.data) + first, step);
    return dispatch_sixteen_bits(p.format, [&]<class T>() { return widen_pairs<T, count>(two); });
  }

 private:
  TILE_FN bool is_contiguous(Index step) const {
    return run == RunDirection::row && count > 1 && step == 1 && inside_count >= count;
  }
  TILE_FN EpilogueVector<count> read_floats(const float* from, Index step) const {
    if (is_contiguous(step) && is_aligned<count>(from)) {
      std::uint32_t x[count];
      copy_words<count>(x, from);
      return EpilogueVector<count>::of([&](int q) { return __uint_as_float(x[q]); });
    }
    return EpilogueVector<count>::of([&](int q) { return q < inside_count ? from[q * step] : 0; });
  }
  TILE_FN void read_shorts(std::uint32_t* two, const std::uint16_t* from, Index step) const {
    if (is_contiguous(step) && is_aligned<pairs>(from)) return copy_words<pairs>(two, from);
    const auto one = [&](int q) { return static_cast<std::uint32_t>(q < inside_count ? from[q * step] : 0); };
#pragma unroll
    for (int q = 0; q < count; q += 2) two[q / 2] = one(q) | one(q + 1) << 16;
  }
};

// Applies the epilogue to the sums of a run and stores the results. Unless `has_epilogue`, the sums are int32, given as
// floats with their bits, and are stored as they are.
template <bool has_epilogue = true, int count, RunDirection run, class View>
TILE_FN void apply_and_store(const View& view, const EpilogueVector<count>& sums, const EpilogueRun<count, run>& at) {
  constexpr int pairs = (count + 1) / 2, half = pairs > 1 ? pairs / 2 : pairs;
  const TargetOutput& o = view.target;
  const EpilogueVector<count> y = has_epilogue ? tile::apply_epilogue<Math>(o, sums, at) : sums;
  const Index first = at.batch * view.batch_stride + at.row * view.row_stride + at.col;
  const Index step = run == RunDirection::row ? 1 : view.row_stride;
  const bool is_full = run == RunDirection::row && count > 1 && o.aligned_fours && at.inside_count >= count;
  if (!has_epilogue || o.format == StorageFormat::f32) {
    float* const to = reinterpret_cast<float*>(view.data) + first;
    if (is_full) return write_words<count>(to, reinterpret_cast<const std::uint32_t*>(y.v));
#pragma unroll
    for (int q = 0; q < count; ++q)
      if (q < at.inside_count) to[q * step] = y.v[q];
    return;
  }
  std::uint16_t* const to = reinterpret_cast<std::uint16_t*>(view.data) + first;
  std::uint32_t two[pairs];
#pragma unroll
  for (int q = 0; q < count; q += 2) {
    const float low = y.v[q], high = q + 1 < count ? y.v[q + 1] : 0;
    two[q / 2] = dispatch_sixteen_bits(o.format, [&]<class T>() { return pack_pair<T>(low, high); });
  }
  if (is_full && is_aligned<pairs>(to)) return write_words<pairs>(to, two);
  if (is_full && pairs > 1) {
    write_words<half>(to, two);
    return write_words<half>(to + count / 2, two + half);
  }
#pragma unroll
  for (int q = 0; q < count; ++q)
    if (q < at.inside_count) to[q * step] = static_cast<std::uint16_t>(two[q / 2] >> q % 2 * 16);
}

// Returns the index of element (r, c) of a warp's 16 x 16 sums in its 1 KiB, in floats. The order avoids bank conflicts
// for writes in the layout of wgmma and for reads of eight elements of a row or column by each thread.
TILE_FN int staged_index(int r, int c) { return (r * 16 + c) ^ (r / 2 % 2 * 12) ^ (r / 8 * 16); }

template <int width> TILE_FN void stage_sums(float* staged, const float* v) {  // v is in the layout of wgmma
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int j = 0; j < width / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(staged + staged_index(half * 8 + lane / 4, j * 8 + lane % 4 * 2)) =
          make_float2(v[j * 4 + half * 2], v[j * 4 + half * 2 + 1]);
}
// Returns eight columns of row r from c on (along_row), or eight rows of column c from r on.
template <bool along_row> TILE_FN EpilogueVector<8> read_sums(const float* staged, int r, int c) {
  EpilogueVector<8> x;
  if constexpr (along_row) {
#pragma unroll
    for (int q = 0; q < 8; q += 4) {
      const float4 four = *reinterpret_cast<const float4*>(staged + staged_index(r, c + q));
      x.v[q] = four.x;
      x.v[q + 1] = four.y;
      x.v[q + 2] = four.z;
      x.v[q + 3] = four.w;
    }
  } else {
    x = EpilogueVector<8>::of([&](int q) { return staged[staged_index(r + q, c)]; });
  }
  return x;
}

}  // namespace ridge::tile::sm90
