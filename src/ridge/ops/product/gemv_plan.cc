// The GEMV kernel's view of a call: which calls it computes, with which threads (gemv.cu).
#include <algorithm>
#include <numeric>

#include "ridge/base/ceil_div.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/operands.h"

namespace ridge::ops::cuda {

using tile::Major;

GemvLineWarps divide_gemv_warps(const ProductSize& size, int element_bytes, int word_bytes) {
  constexpr int warp = 32;
  const std::int64_t iteration_bytes = warp * word_bytes * GemvLineWarps::words(size.m, element_bytes);
  GemvLineWarps out;
  while (out.warps < GemvLineWarps::per_block && size.k * element_bytes > iteration_bytes * out.warps) out.warps *= 2;
  const std::int64_t columns = GemvLineWarps::columns(size.m, element_bytes);
  out.blocks_across = ceil_div(size.n, columns * (GemvLineWarps::per_block / out.warps));
  return out;
}

GemvColumnThreads divide_gemv_threads(const ProductSize& size, std::int64_t batch, std::int64_t word_elements,
                                      int multiprocessors) {
  constexpr int min_columns = 8, warp = 32;  // Eight loads of 16 bytes read a line of memory
  const std::int64_t words = ceil_div(size.n, word_elements);
  GemvColumnThreads out;
  const auto halve_columns = [&] {
    out.columns /= 2;
    if (2 * out.lines * out.loads <= size.k || out.count() < warp) out.lines *= 2;
  };
  while (out.columns > 1 && out.columns / 2 >= words) halve_columns();
  while (out.columns > min_columns && out.lines * out.loads < size.k &&
         batch * ceil_div(words, out.columns) < multiprocessors)
    halve_columns();
  out.blocks_across = ceil_div(words, out.columns);
  while (2 * out.count() <= GemvColumnThreads::max_count(size.m) && 2 * out.lines * out.loads <= size.k &&
         batch * out.blocks_across < multiprocessors)
    out.lines *= 2;
  return out;
}

TileProblem make_gemv_problem(const MatmulCall& call) {
  TileProblem t = with_f32_for_tf32(make_tile_problem(call));
  // With one element along k, either axis of B may be the contiguous one.
  const auto make_columns_contiguous = [](TileOperand& x) {
    if (x.k != 1 || x.major != Major::k || x.line_stride != 1) return;
    x.major = Major::mn;
    x.line_stride = copy_line_stride(x);
  };
  if (t.batch > 1) {
    make_columns_contiguous(t.a);
    make_columns_contiguous(t.b);
  }
  if (t.size.m <= max_gemv_rows || t.size.n != 1 || t.d_line_stride != 1) return t;
  t.d_transposed = !t.d_transposed;
  std::swap(t.size.m, t.size.n);
  std::swap(t.a, t.b);
  std::swap(t.constant_a, t.constant_b);
  return t;
}

std::optional<GemvWork> make_gemv_work(const MatmulCall& call) {
  const TileProblem t = make_gemv_problem(call);
  if (!StoredFloats::contains(t.a.dtype) || t.grouped || t.windows || t.batch == 0 || t.size.m == 0 || t.size.n == 0 ||
      t.size.k == 0 || t.size.m > max_gemv_rows || t.size.n > max_gemv_columns)
    return std::nullopt;
  const bool along_columns = t.b.major != Major::k;
  if (t.batch == 1 && t.a.dtype != DType::f32 &&
      (along_columns || t.a.major != Major::k ||
       (can_copy_engine_read(t.a, t.batch) && can_copy_engine_read(t.b, t.batch))))
    return std::nullopt;
  if (!along_columns && t.a.major != Major::k) return std::nullopt;
  const int alignment = along_columns
                            ? std::gcd(line_alignment(t.b), static_cast<int>(t.b.bytes(t.size.n) % swizzle_bytes))
                            : std::min(line_alignment(t.a), line_alignment(t.b));
  return GemvWork{t.batch, t.size, alignment, operand_bytes(t.a.dtype), along_columns};
}

}  // namespace ridge::ops::cuda
