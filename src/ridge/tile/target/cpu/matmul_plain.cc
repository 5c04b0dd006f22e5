// Plain C++ for every other machine: vectors of four floats in the compiler's own words, which are SSE2 on x86-64 and
// NEON on ARM; 6 x 8 sums. The slowest engine, and the one that needs nothing.
#include <cstring>

#include "ridge/tile/target/cpu/block.h"
#include "ridge/tile/target/cpu/isa.h"
#include "ridge/tile/target/cpu/pack.h"

namespace ridge::tile::cpu {
namespace {

struct V {
  typedef float Register __attribute__((vector_size(16)));
  using Sum = float;
  static constexpr int lanes = 4;
  [[gnu::always_inline]] static Register zero() { return Register{}; }
  [[gnu::always_inline]] static Register load(const Unit* p) {
    Register x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  [[gnu::always_inline]] static Register load_part(const Unit* p, int) { return load(p); }  // B is packed and padded
  [[gnu::always_inline]] static Register broadcast(Unit x) {
    const float f = __builtin_bit_cast(float, x);
    return Register{f, f, f, f};
  }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) { return c + a * b; }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return a + b; }
  [[gnu::always_inline]] static Register sum_load(const float* p) {
    Register x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  [[gnu::always_inline]] static Register sum_load_part(const float* p, int n) {
    Register x{};
    for (int i = 0; i < n; ++i) x[i] = p[i];
    return x;
  }
  [[gnu::always_inline]] static void sum_stream(float* p, Register x) { sum_store(p, x); }
  [[gnu::always_inline]] static void sum_store(float* p, Register x) { std::memcpy(p, &x, sizeof x); }
  [[gnu::always_inline]] static void sum_store_part(float* p, Register x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
};

template <class T> constexpr Engine engine_of{
    .rows = 6,
    .cols = 8,
    .per_unit = 1,
    .block = block<V, 6, false>,
    .pack_along = pack_along<V, T, 1>,
    .pack_across = pack_across<V, T, 1>,
};

}  // namespace

const Engine* plain_engine(DType a, DType b) {
  if (a != b) return nullptr;
  if (a == DType::f32) return &engine_of<float>;
  if (a == DType::bf16) return &engine_of<Bf16>;
  if (a == DType::f16) return &engine_of<F16>;
  return nullptr;
}

const Engine* engine(DType a, DType b) {
  const Isa best = isa();
  const Engine* found = nullptr;
  if (best >= Isa::avx512_bf16) found = avx512_bf16_engine(a, b);
  if (found == nullptr && best >= Isa::avx512) found = avx512_engine(a, b);
  if (found == nullptr && best >= Isa::avx2) found = avx2_engine(a, b);
  return found != nullptr ? found : plain_engine(a, b);
}

}  // namespace ridge::tile::cpu
