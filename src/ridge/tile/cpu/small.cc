#include "ridge/tile/cpu/small.h"

#include <array>

#include "ridge/tile/cpu/schedule.h"

namespace ridge::tile::cpu {
namespace {

// With a smaller L2, larger products may split a longer k into stages, which changes the order of summation.
constexpr Index short_k = 64;
constexpr Index min_l2_bytes = Index{512} << 10;

// Largest k of transposed dot products.
constexpr Index max_narrow_k = skinny_k_block_units(max_skinny_rows);

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

// Returns the elements of up to max_small_size rows along k, copied to `packed` unless they are contiguous.
const Unit* pack_rows_along_k(const Engine& e, const Unit* first, Index rows, Index k, Index stride, bool along_k,
                              Unit* packed) {
  if (along_k && (stride == k || rows == 1)) return first;
  for (Index i = 0; i < rows; ++i)
    (along_k ? e.left_packers.along_k
             : e.left_packers.across_k)({first + i * (along_k ? stride : 1), stride, 1, 1, k, packed + i * k});
  return packed;
}

// Computes dot products along k. Functions of their own, so that other products do not need this stack.
[[gnu::noinline]] void multiply_small_dots(const Engine& e, const SmallArgs& x) {
  alignas(64) Unit packed[max_skinny_rows_along_k * max_small_size];
  SkinnyArgs dots;
  dots.a_by_rows = pack_rows_along_k(e, x.a, x.m, x.k, x.a_stride, x.a_along_k, packed);
  dots.b = x.b;
  dots.b_stride = x.b_stride;
  dots.k = x.k;
  dots.n = x.n;
  dots.rows = static_cast<int>(x.m);
  dots.c = x.c;
  dots.c_stride = x.c_stride;
  e.skinny_along_k(dots);
}

// Computes dot products of fewer columns than rows as the transposed product, whose rows are the columns of B.
[[gnu::noinline]] void multiply_transposed_dots(const Engine& e, const SmallArgs& x) {
  alignas(64) Unit packed[max_narrow_columns * max_narrow_k], packed_a[max_small_size * max_small_size];
  alignas(64) float sums[max_narrow_columns * max_small_size];
  SkinnyArgs dots;
  dots.a_by_rows = pack_rows_along_k(e, x.b, x.n, x.k, x.b_stride, true, packed);
  dots.b = x.a_along_k ? x.a : pack_rows_along_k(e, x.a, x.m, x.k, x.a_stride, false, packed_a);
  dots.b_stride = x.a_along_k ? x.a_stride : x.k;
  dots.k = x.k;
  dots.n = x.m;
  dots.rows = static_cast<int>(x.n);
  dots.c = sums;
  dots.c_stride = max_small_size;
  e.skinny_along_k(dots);
  e.transpose_sums({sums, max_small_size, dots.rows, x.m, x.c, x.c_stride});
}

// Operands of the schedule that larger products would have.
struct ScheduledProduct {
  Matrix a, b;
  MatmulSizes sizes;
  MatmulOperands operands;
  ScheduledProduct(const Engine& e, const SmallArgs& x, bool b_along_k) : sizes{1, {x.m, x.n, x.k}} {
    b.row_stride = b_along_k ? x.b_stride : 1;
    b.col_stride = b_along_k ? 1 : x.b_stride;
    constexpr int bytes = sizeof(float);
    operands = {&e, bytes, bytes, &a, &b};
  }
};

// True if larger products compute dot products along k.
[[gnu::noinline]] bool adds_dot_products(const Engine& e, const SmallArgs& x) {
  const ScheduledProduct product(e, x, true);
  return prefers_skinny_schedule(product.sizes, product.operands, 1);
}

// True if `multiply_transposed_dots` takes a product of long k without copying A. Larger products then have a single k
// block, too, so that the order of summation is the same.
bool has_long_narrow_dots(const Engine& e, const SmallArgs& x) {
  return x.n < max_narrow_columns && x.m >= 2 * x.n && x.m <= max_small_size && x.k <= max_narrow_k && x.a_along_k &&
         e.few_rows_k_block_units == 0 && adds_dot_products(e, x);
}

// True if a product of long k reads B once, in place and in one stage.
[[gnu::noinline]] bool reads_long_k_in_place(const Engine& e, const SmallArgs& x) {
  const ScheduledProduct product(e, x, false);
  return x.m <= e.rows && has_one_stage_in_place(product.sizes, product.operands);
}

}  // namespace

bool multiply_small(const SmallArgs& x) {
  const Engine& e = find_f32_engine();
  if (e.multiply_small == nullptr || (x.k > short_k && pool::cache_sizes().l2 < min_l2_bytes)) return false;
  const bool along_k = x.b_along_k || (x.n == 1 && x.b_stride == 1);
  if (x.k > max_small_size && !(along_k ? has_long_narrow_dots(e, x) : reads_long_k_in_place(e, x))) return false;
  const bool narrow = x.n < max_narrow_columns;
  if (!along_k || (x.m > max_skinny_rows_along_k && !narrow) || !adds_dot_products(e, x))
    e.multiply_small(x);
  else if (narrow && x.m >= 2 * x.n)
    multiply_transposed_dots(e, x);
  else
    multiply_small_dots(e, x);
  return true;
}

}  // namespace ridge::tile::cpu
