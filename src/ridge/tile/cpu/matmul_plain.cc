// Plain C++ engines for machines without another engine: 6 x 8 sums in the compiler's vectors of four f32 or int32,
// which are SSE2 on x86-64 and NEON on ARM. They are the slowest engines and run on any CPU.
#include <cstring>

#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/block.h"
#include "ridge/tile/cpu/pack.h"

namespace ridge::tile::cpu {
namespace {

template <class Sum_> struct Vectors {
  typedef Sum_ Register __attribute__((vector_size(16)));
  using Sum = Sum_;
  static constexpr int lanes = 4;
  [[gnu::always_inline]] static Register zero() { return Register{}; }
  [[gnu::always_inline]] static Register load(const Unit* p) {
    Register x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  [[gnu::always_inline]] static Register load_part(const Unit* p, int) { return load(p); }  // B is packed and padded
  [[gnu::always_inline]] static Register broadcast(Unit x) {
    const Sum f = __builtin_bit_cast(Sum, x);
    return Register{f, f, f, f};
  }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) { return c + a * b; }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return a + b; }
  [[gnu::always_inline]] static Register sum_load(const Sum* p) {
    Register x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  [[gnu::always_inline]] static Register sum_load_part(const Sum* p, int n) {
    Register x{};
    for (int i = 0; i < n; ++i) x[i] = p[i];
    return x;
  }
  [[gnu::always_inline]] static void sum_store(Sum* p, Register x) { std::memcpy(p, &x, sizeof x); }
  [[gnu::always_inline]] static void sum_store_part(Sum* p, Register x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
};

using V = Vectors<float>;
using Ints = Vectors<std::int32_t>;

template <class A, class B> struct PlainWidening {
  static constexpr Engine engine{
      .rows = 6,
      .cols = 8,
      .per_unit = 1,
      .multiply_block = dispatch_block<V, 6, false>,
      .left_packers = packers<V, A, float>,
      .right_packers = packers<V, B, float>,
  };
};
constexpr Engine int8_engine{
    .rows = 6,
    .cols = 8,
    .per_unit = 1,
    .multiply_block = dispatch_block<Ints, 6, false>,
    .left_packers = packers<V, std::int8_t, std::int32_t>,
    .right_packers = packers<V, std::int8_t, std::int32_t>,
};

}  // namespace

const Engine* plain_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return &int8_engine;
  return find_widening_engine<PlainWidening>(a, b);
}

const Engine* find_engine(DType a, DType b, const pool::Cpu& cpu, bool prepacked) {
  const Isa best = cpu.isa;
  const bool pairs = cpu.bf16_pairs || prepacked;
  const Engine* found = nullptr;
  if (best >= Isa::amx) found = amx_engine(a, b);
  if (found == nullptr && best >= Isa::avx512_bf16)
    found = (pairs ? avx512_bf16_engine : avx512_widened_bf16_engine)(a, b);
  if (found == nullptr && best >= Isa::avx512) found = avx512_engine(a, b);
  if (found == nullptr && best >= Isa::avx2) found = avx2_engine(a, b);
  return found != nullptr ? found : plain_engine(a, b);
}

const Engine* find_engine(DType a, DType b) { return find_engine(a, b, pool::this_cpu()); }

}  // namespace ridge::tile::cpu
