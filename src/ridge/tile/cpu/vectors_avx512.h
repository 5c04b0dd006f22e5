// AVX-512 vectors of 16 sums, f32 or int32: the V of block.h. Tag is a type of the including file's unnamed namespace
// and makes these types distinct for each file.
#pragma once

#include <immintrin.h>

#include "ridge/tile/cpu/pack_avx512.h"

namespace ridge::tile::cpu {

template <class Tag> struct FloatVectors512 {
  using Register = __m512;
  using Sum = float;
  static constexpr int lanes = 16;
  static constexpr bool indexes_right = true;
  [[gnu::always_inline]] static __mmask16 part(Index n) { return first_lanes_mask<Tag>(n); }
  [[gnu::always_inline]] static Register zero() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static Register load(const Unit* p) { return _mm512_loadu_ps(p); }
  [[gnu::always_inline]] static Register load_part(const Unit* p, __mmask16 part) {
    return _mm512_maskz_loadu_ps(part, p);
  }
  [[gnu::always_inline]] static Register broadcast(Unit x) { return _mm512_castsi512_ps(_mm512_set1_epi32(x)); }
  // Assembly, because with the intrinsic g++ 12 copies many sums. multiply_add_at broadcasts a unit from memory.
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
  }
  [[gnu::always_inline]] static Register multiply_add_at(Register c, const Unit& a, Register b) {
    asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(a));
    return c;
  }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static Register sum_load(const float* p) { return _mm512_loadu_ps(p); }
  [[gnu::always_inline]] static Register sum_load_part(const float* p, __mmask16 part) {
    return _mm512_maskz_loadu_ps(part, p);
  }
  [[gnu::always_inline]] static void sum_stream(float* p, Register x) { _mm512_stream_ps(p, x); }
  [[gnu::always_inline]] static void sum_store(float* p, Register x) { _mm512_storeu_ps(p, x); }
  [[gnu::always_inline]] static void sum_store_part(float* p, Register x, __mmask16 part) {
    _mm512_mask_storeu_ps(p, part, x);
  }
};

// Vectors of 16 int32 sums; a unit is two int8 along k, widened to int16, so that no product overflows.
template <class Tag> struct IntVectors512 {
  using Register = __m512i;
  using Sum = std::int32_t;
  static constexpr int lanes = 16;
  [[gnu::always_inline]] static __mmask16 part(Index n) { return first_lanes_mask<Tag>(n); }
  [[gnu::always_inline]] static Register zero() { return _mm512_setzero_si512(); }
  [[gnu::always_inline]] static Register load(const Unit* p) { return _mm512_loadu_si512(p); }
  [[gnu::always_inline]] static Register load_part(const Unit* p, __mmask16 part) {
    return _mm512_maskz_loadu_epi32(part, p);
  }
  [[gnu::always_inline]] static Register broadcast(Unit x) { return _mm512_set1_epi32(x); }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    Register product;  // one asm for both: else the compiler computes products of four steps first and spills
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(c), "=&v"(product) : "v"(a), "v"(b));
    return c;
  }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return _mm512_add_epi32(a, b); }
  [[gnu::always_inline]] static Register sum_load(const Sum* p) { return _mm512_loadu_si512(p); }
  [[gnu::always_inline]] static Register sum_load_part(const Sum* p, __mmask16 part) {
    return _mm512_maskz_loadu_epi32(part, p);
  }
  [[gnu::always_inline]] static void sum_stream(Sum* p, Register x) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), x);
  }
  [[gnu::always_inline]] static void sum_store(Sum* p, Register x) { _mm512_storeu_si512(p, x); }
  [[gnu::always_inline]] static void sum_store_part(Sum* p, Register x, __mmask16 part) {
    _mm512_mask_storeu_epi32(p, part, x);
  }
};

// Vectors of 16 int32 sums; a unit is four int8 along k. Units of B are stored as uint8: see pack_avx512.h.
template <class Tag> struct QuadVectors512 : IntVectors512<Tag> {
  using Register = __m512i;
  static constexpr int left_tail = 16;
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    asm("vpdpbusd %1, %2, %0" : "+v"(c) : "v"(a), "v"(b));  // the intrinsic makes g++ 12 spill half of the sums
    return c;
  }
  [[gnu::always_inline]] static Register multiply_add_at(Register c, const Unit& a, Register b) {
    asm("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(c) : "m"(a), "v"(b));
    return c;
  }
};

}  // namespace ridge::tile::cpu
