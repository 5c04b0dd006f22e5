#include "ridge/tile/cpu/small.h"

#include <array>

#include "ridge/tile/cpu/schedule.h"

namespace ridge::tile::cpu {
namespace {

// With a smaller L2, larger products may split a longer k into stages, which changes the order of summation.
constexpr Index short_k = 64;
constexpr Index min_l2_bytes = Index{512} << 10;

// Returns find_engine(f32, f32), which takes a tenth of the time of the smallest products, from a table.
const Engine& find_f32_engine() {
  constexpr int isas = static_cast<int>(Isa::amx) + 1;
  static const std::array<const Engine*, isas> engines = [] {
    std::array<const Engine*, isas> all{};
    for (int i = 0; i < isas; ++i) all[i] = find_engine(DType::f32, DType::f32, {.isa = static_cast<Isa>(i)});
    return all;
  }();
  return *engines[static_cast<int>(pool::active_isa())];
}

// Computes dot products along k. A function of its own, so that other products do not need this stack.
[[gnu::noinline]] void multiply_small_dots(const Engine& e, const SmallArgs& x) {
  alignas(64) Unit packed[max_skinny_rows_along_k * max_small_size];
  SkinnyArgs dots;
  dots.a_by_rows = x.a;
  if (!x.a_along_k || x.a_stride != x.k) {
    const auto pack = x.a_along_k ? e.left_packers.along_k : e.left_packers.across_k;
    for (Index i = 0; i < x.m; ++i)
      pack({x.a + i * (x.a_along_k ? x.a_stride : 1), x.a_stride, 1, 1, x.k, packed + i * x.k});
    dots.a_by_rows = packed;
  }
  dots.b = x.b;
  dots.b_stride = x.b_stride;
  dots.k = x.k;
  dots.n = x.n;
  dots.rows = static_cast<int>(x.m);
  dots.c = x.c;
  dots.c_stride = x.c_stride;
  e.skinny_along_k(dots);
}

// True if larger products compute dot products along k.
[[gnu::noinline]] bool adds_dot_products(const Engine& e, const SmallArgs& x) {
  Matrix b;
  b.row_stride = x.b_stride;
  constexpr int bytes = sizeof(float);
  return prefers_skinny_schedule({1, {x.m, x.n, x.k}}, {&e, bytes, bytes, nullptr, &b}, 1);
}

}  // namespace

bool multiply_small(const SmallArgs& x) {
  const Engine& e = find_f32_engine();
  if (e.multiply_small == nullptr || (x.k > short_k && pool::cache_sizes().l2 < min_l2_bytes)) return false;
  const bool along_k = x.b_along_k || (x.n == 1 && x.b_stride == 1);
  if (along_k && x.m <= max_skinny_rows_along_k && adds_dot_products(e, x))
    multiply_small_dots(e, x);
  else
    e.multiply_small(x);
  return true;
}

}  // namespace ridge::tile::cpu
