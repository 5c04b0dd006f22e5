// Vectors of floats: 16 lanes with AVX-512, 8 with AVX2, else a plain array of 8 that the compiler vectorises for the
// machine. A kernel is written once with these operations and compiled once for each instruction set; all names are in
// an unnamed namespace, so that no AVX-512 copy of a function is linked into the plain kernel. Rounding is to
// nearest even and subnormals are kept. Only `stream_pair` and `stream_even_odd` need aligned addresses: aligned to the
// bytes that they store.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ridge/base/float16.h"
#if defined(__AVX2__)
#pragma GCC diagnostic push  // gcc 12 warns about the intrinsics' own undefined vectors (gcc bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace ridge::ops {
namespace {

#if defined(__AVX512F__)

struct Mask512 {
  __mmask16 m;
};
struct Int512 {
  __m512i v;
  static Int512 broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  static Int512 load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
};
struct Float512 {
  using Int = Int512;
  using Mask = Mask512;
  static constexpr int lanes = 16;
  __m512 v;

  static Float512 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static __mmask16 lane_mask(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static Float512 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Float512 load(const Bf16* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static Float512 load(const F16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Float512 load_partial(const float* p, int n) { return {_mm512_maskz_loadu_ps(lane_mask(n), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(Bf16* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16_bits()); }
  void store(F16* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_f16_bits()); }
  void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, lane_mask(n), v); }
  static void stream_pair(Float512 a, Float512 b, float* p) {
    _mm512_stream_ps(p, a.v);
    _mm512_stream_ps(p + lanes, b.v);
  }
  static void stream_pair(Float512 a, Float512 b, Bf16* p) { stream_line(a.to_bf16_bits(), b.to_bf16_bits(), p); }
  static void stream_pair(Float512 a, Float512 b, F16* p) { stream_line(a.to_f16_bits(), b.to_f16_bits(), p); }
  static void store_fence() { _mm_sfence(); }
  static void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

  // Access 32 bf16 as a vector of even and one of odd elements: half the instructions of two vectors in order.
  static constexpr bool has_even_odd = true;
  static void load_even_odd(const Bf16* p, Float512& even, Float512& odd) {
    const __m512i u = _mm512_loadu_si512(p);
    even = {_mm512_castsi512_ps(_mm512_slli_epi32(u, 16))};
    odd = {_mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32(static_cast<int>(0xffff0000))))};
  }
  static void store_even_odd(Float512 even, Float512 odd, Bf16* p) {
    _mm512_storeu_si512(p, round_even_odd(even, odd));
  }
  static void stream_even_odd(Float512 even, Float512 odd, Bf16* p) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), round_even_odd(even, odd));
  }

 private:
  static void stream_line(__m256i a, __m256i b, void* p) {
    _mm512_stream_si512(static_cast<__m512i*>(p), _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
  }
  static __m512i round_even_odd(Float512 even, Float512 odd) {
    __m512i low = even.round_to_bf16(), high = odd.round_to_bf16();
    if (_mm512_cmp_ps_mask(even.v, odd.v, _CMP_UNORD_Q) != 0) [[unlikely]] {
      low = even.quiet_nan_or(low);
      high = odd.quiet_nan_or(high);
    }
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low, 16), high);
  }
  __m512i round_to_bf16() const {  // result in the upper half of each lane; undefined for NaN
    const __m512i u = _mm512_castps_si512(v), rounded = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
    const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    return _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
  }
  __m512i quiet_nan_or(__m512i rounded) const {
    const __m512i quiet = _mm512_or_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x400000));
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet);
  }
  __m256i to_f16_bits() const { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  __m256i to_bf16_bits() const {  // does not use vcvtneps2bf16, which flushes subnormals to zero
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(quiet_nan_or(round_to_bf16()), 16));
  }
};

inline Float512 operator+(Float512 a, Float512 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Float512 operator-(Float512 a, Float512 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Float512 operator*(Float512 a, Float512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Float512 operator/(Float512 a, Float512 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Float512 fma(Float512 a, Float512 b, Float512 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Float512 sqrt(Float512 a) { return {_mm512_sqrt_ps(a.v)}; }
inline Float512 round_even(Float512 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | 8)}; }
inline Float512 scale_by_pow2(Float512 a, Float512 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
inline Float512 lane_min(Float512 a, Float512 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Float512 lane_max(Float512 a, Float512 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Mask512 operator<(Float512 a, Float512 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask512 operator==(Float512 a, Float512 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask512 is_nan(Float512 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline bool any_lane(Mask512 m) { return m.m != 0; }
inline Float512 select(Mask512 m, Float512 a, Float512 b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }
inline Int512 as_int(Float512 a) { return {_mm512_castps_si512(a.v)}; }
inline Float512 as_float(Int512 a) { return {_mm512_castsi512_ps(a.v)}; }
inline Int512 to_int(Float512 a) { return {_mm512_cvtps_epi32(a.v)}; }
inline Float512 to_float(Int512 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Int512 operator+(Int512 a, Int512 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Int512 operator-(Int512 a, Int512 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline Int512 operator&(Int512 a, Int512 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline Int512 operator^(Int512 a, Int512 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n> Int512 shift_left(Int512 a) { return {_mm512_slli_epi32(a.v, n)}; }
template <int n> Int512 shift_right(Int512 a) { return {_mm512_srai_epi32(a.v, n)}; }
inline Mask512 is_zero(Int512 a) { return {_mm512_testn_epi32_mask(a.v, a.v)}; }
inline float sum_lanes(Float512 a) { return _mm512_reduce_add_ps(a.v); }
using FloatLanes = Float512;

#elif defined(__AVX2__)

struct Mask256 {
  __m256 m;
};
struct Int256 {
  __m256i v;
  static Int256 broadcast(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
  static Int256 load(const std::int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
};
struct Float256 {
  using Int = Int256;
  using Mask = Mask256;
  static constexpr int lanes = 8;
  __m256 v;

  static Float256 broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static __m256i lane_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Float256 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Float256 load(const Bf16* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static Float256 load(const F16* p) { return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
  static Float256 load_partial(const float* p, int n) { return {_mm256_maskload_ps(p, lane_mask(n))}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store(Bf16* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16_bits()); }
  void store(F16* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_f16_bits()); }
  void store_partial(float* p, int n) const { _mm256_maskstore_ps(p, lane_mask(n), v); }
  static void stream_pair(Float256 a, Float256 b, float* p) {
    _mm256_stream_ps(p, a.v);
    _mm256_stream_ps(p + lanes, b.v);
  }
  static void stream_pair(Float256 a, Float256 b, Bf16* p) { stream_half_line(a.to_bf16_bits(), b.to_bf16_bits(), p); }
  static void stream_pair(Float256 a, Float256 b, F16* p) { stream_half_line(a.to_f16_bits(), b.to_f16_bits(), p); }
  static void store_fence() { _mm_sfence(); }
  static void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

  // Access 16 bf16 as a vector of even and one of odd elements: rounding takes 20 instructions instead of 33 for two
  // vectors in order, and no element crosses the 128-bit lanes.
  static constexpr bool has_even_odd = true;
  static void load_even_odd(const Bf16* p, Float256& even, Float256& odd) {
    const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    even = {_mm256_castsi256_ps(_mm256_slli_epi32(u, 16))};
    odd = {_mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32(static_cast<int>(0xffff0000))))};
  }
  static void store_even_odd(Float256 even, Float256 odd, Bf16* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_even_odd(even, odd));
  }
  static void stream_even_odd(Float256 even, Float256 odd, Bf16* p) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), round_even_odd(even, odd));
  }

 private:
  static void stream_half_line(__m128i a, __m128i b, void* p) {
    _mm256_stream_si256(static_cast<__m256i*>(p), _mm256_set_m128i(b, a));
  }
  static __m256i round_even_odd(Float256 even, Float256 odd) {
    __m256i low = even.round_to_bf16(), high = odd.round_to_bf16();
    if (_mm256_movemask_ps(_mm256_cmp_ps(even.v, odd.v, _CMP_UNORD_Q)) != 0) [[unlikely]] {
      low = even.quiet_nan_or(low);
      high = odd.quiet_nan_or(high);
    }
    return _mm256_blend_epi16(_mm256_srli_epi32(low, 16), high, 0xaa);
  }
  __m256i round_to_bf16() const {  // result in the upper half of each lane; undefined for NaN
    const __m256i u = _mm256_castps_si256(v), even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), even);
  }
  __m256i quiet_nan_or(__m256i rounded) const {
    const __m256i quiet = _mm256_or_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
  __m128i to_f16_bits() const { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  __m128i to_bf16_bits() const {
    const __m256i top = _mm256_srli_epi32(quiet_nan_or(round_to_bf16()), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  }
};

inline Float256 operator+(Float256 a, Float256 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Float256 operator-(Float256 a, Float256 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Float256 operator*(Float256 a, Float256 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Float256 operator/(Float256 a, Float256 b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Float256 fma(Float256 a, Float256 b, Float256 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Float256 sqrt(Float256 a) { return {_mm256_sqrt_ps(a.v)}; }
inline Float256 round_even(Float256 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | 8)}; }
inline Float256 lane_min(Float256 a, Float256 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Float256 lane_max(Float256 a, Float256 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Mask256 operator<(Float256 a, Float256 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask256 operator==(Float256 a, Float256 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask256 is_nan(Float256 a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
inline bool any_lane(Mask256 m) { return _mm256_movemask_ps(m.m) != 0; }
inline Float256 select(Mask256 m, Float256 a, Float256 b) { return {_mm256_blendv_ps(b.v, a.v, m.m)}; }
inline Int256 as_int(Float256 a) { return {_mm256_castps_si256(a.v)}; }
inline Float256 as_float(Int256 a) { return {_mm256_castsi256_ps(a.v)}; }
inline Int256 to_int(Float256 a) { return {_mm256_cvtps_epi32(a.v)}; }
inline Float256 to_float(Int256 a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline Int256 operator+(Int256 a, Int256 b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline Int256 operator-(Int256 a, Int256 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
inline Int256 operator&(Int256 a, Int256 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline Int256 operator^(Int256 a, Int256 b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int n> Int256 shift_left(Int256 a) { return {_mm256_slli_epi32(a.v, n)}; }
template <int n> Int256 shift_right(Int256 a) { return {_mm256_srai_epi32(a.v, n)}; }
inline Mask256 is_zero(Int256 a) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, _mm256_setzero_si256()))}; }
inline float sum_lanes(Float256 a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
using FloatLanes = Float256;

#else

template <class T> struct EightLanes { T v[8]; };
struct MaskPlain : EightLanes<bool> {};
struct IntPlain : EightLanes<std::int32_t> {
  static IntPlain broadcast(std::int32_t x) {
    IntPlain r;
    for (std::int32_t& lane : r.v) lane = x;
    return r;
  }
  static IntPlain load(const std::int32_t* p) {
    IntPlain r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
};
struct FloatPlain : EightLanes<float> {
  using Int = IntPlain;
  using Mask = MaskPlain;
  static constexpr int lanes = 8;
  static constexpr bool has_even_odd = false;

  static FloatPlain broadcast(float x) {
    FloatPlain r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  static FloatPlain load(const float* p) {
    FloatPlain r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  template <class T> static FloatPlain load(const T* p) {
    T part[lanes];
    std::memcpy(part, p, sizeof part);
    FloatPlain r;
    for (int i = 0; i < lanes; ++i) r.v[i] = ridge::to_float(part[i]);
    return r;
  }
  static FloatPlain load_partial(const float* p, int n) {
    FloatPlain r = broadcast(0);
    std::memcpy(r.v, p, static_cast<std::size_t>(n) * sizeof(float));
    return r;
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }
  void store(Bf16* p) const {
    Bf16 part[lanes];
    for (int i = 0; i < lanes; ++i) part[i] = to_bf16(v[i]);
    std::memcpy(p, part, sizeof part);
  }
  void store(F16* p) const {
    F16 part[lanes];
    for (int i = 0; i < lanes; ++i) part[i] = to_f16(v[i]);
    std::memcpy(p, part, sizeof part);
  }
  void store_partial(float* p, int n) const { std::memcpy(p, v, static_cast<std::size_t>(n) * sizeof(float)); }
  template <class T> static void stream_pair(FloatPlain a, FloatPlain b, T* p) {
    a.store(p);
    b.store(p + lanes);
  }
  static void store_fence() {}
  static void prefetch_l2(const void* p) { __builtin_prefetch(p); }
};

template <class R, class F> R map_lanes(F f) {
  R r;
  for (int i = 0; i < 8; ++i) r.v[i] = f(i);
  return r;
}
inline FloatPlain operator+(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] + b.v[i]; });
}
inline FloatPlain operator-(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] - b.v[i]; });
}
inline FloatPlain operator*(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] * b.v[i]; });
}
inline FloatPlain operator/(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] / b.v[i]; });
}
// The product is exact in f64; the sum is rounded to f64 and then to f32. The result is exact if that of fma is exact.
inline FloatPlain fma(FloatPlain a, FloatPlain b, FloatPlain c) {
  return map_lanes<FloatPlain>(
      [&](int i) { return static_cast<float>(static_cast<double>(a.v[i]) * b.v[i] + static_cast<double>(c.v[i])); });
}
inline FloatPlain sqrt(FloatPlain a) {
  return map_lanes<FloatPlain>([&](int i) { return std::sqrt(a.v[i]); });
}
inline FloatPlain round_even(FloatPlain a) {  // |a| < 2^22
  return map_lanes<FloatPlain>([&](int i) { return (a.v[i] + 0x1.8p23f) - 0x1.8p23f; });
}
inline FloatPlain lane_min(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline FloatPlain lane_max(FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline MaskPlain operator<(FloatPlain a, FloatPlain b) {
  return map_lanes<MaskPlain>([&](int i) { return a.v[i] < b.v[i]; });
}
inline MaskPlain operator==(FloatPlain a, FloatPlain b) {
  return map_lanes<MaskPlain>([&](int i) { return a.v[i] == b.v[i]; });
}
inline MaskPlain is_nan(FloatPlain a) {
  return map_lanes<MaskPlain>([&](int i) { return a.v[i] != a.v[i]; });
}
inline bool any_lane(MaskPlain m) {
  bool found = false;
  for (const bool lane : m.v) found |= lane;
  return found;
}
inline FloatPlain select(MaskPlain m, FloatPlain a, FloatPlain b) {
  return map_lanes<FloatPlain>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
inline IntPlain as_int(FloatPlain a) {
  return map_lanes<IntPlain>([&](int i) { return __builtin_bit_cast(std::int32_t, a.v[i]); });
}
inline FloatPlain as_float(IntPlain a) {
  return map_lanes<FloatPlain>([&](int i) { return __builtin_bit_cast(float, a.v[i]); });
}
inline IntPlain to_int(FloatPlain a) {  // out of range gives INT32_MIN, as cvtps2dq does
  return map_lanes<IntPlain>([&](int i) {
    const float x = a.v[i];
    return x > -0x1p31f && x < 0x1p31f ? static_cast<std::int32_t>(x) : INT32_MIN;
  });
}
inline FloatPlain to_float(IntPlain a) {
  return map_lanes<FloatPlain>([&](int i) { return static_cast<float>(a.v[i]); });
}
inline IntPlain operator+(IntPlain a, IntPlain b) {
  return map_lanes<IntPlain>([&](int i) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) + static_cast<std::uint32_t>(b.v[i]));
  });
}
inline IntPlain operator-(IntPlain a, IntPlain b) {
  return map_lanes<IntPlain>([&](int i) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) - static_cast<std::uint32_t>(b.v[i]));
  });
}
inline IntPlain operator&(IntPlain a, IntPlain b) {
  return map_lanes<IntPlain>([&](int i) { return a.v[i] & b.v[i]; });
}
inline IntPlain operator^(IntPlain a, IntPlain b) {
  return map_lanes<IntPlain>([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int n> IntPlain shift_left(IntPlain a) {
  return map_lanes<IntPlain>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) << n); });
}
template <int n> IntPlain shift_right(IntPlain a) {
  return map_lanes<IntPlain>([&](int i) { return a.v[i] >> n; });
}
inline MaskPlain is_zero(IntPlain a) {
  return map_lanes<MaskPlain>([&](int i) { return a.v[i] == 0; });
}
inline float sum_lanes(FloatPlain a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
using FloatLanes = FloatPlain;

#endif

}  // namespace
}  // namespace ridge::ops
