// CPU `matmul` of ridge/compute.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/product.h"
#include "ridge/api/views.h"
#include "ridge/base/contains.h"
#include "ridge/base/cores.h"
#include "ridge/ops/product/cpu.h"

namespace ridge {
namespace {

using ops::MatmulProblem;
using ops::MatrixLayout;

std::string describe_array(const ArrayView& view) {
  return fmt::format("{}[{}]", dtype_name(view.dtype), fmt::join(view.shape, ", "));
}

Error shape_error(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  return input_error(
      fmt::format("expected a[..., m, k] * b[..., k, n] -> d[..., m, n] of one type, found {} * {} -> {}",
                  describe_array(a), describe_array(b), describe_array(d)));
}

std::span<const std::int64_t> leading_axes(const ArrayView& view) { return view.shape.first(view.shape.size() - 2); }
std::int64_t extent_from_last(const ArrayView& view, std::size_t from_last) {
  return view.shape[view.shape.size() - 1 - from_last];
}

bool has_matching_shapes(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  for (const ArrayView* view : {&a, &b, &d}) {
    if (dtype_bits(view->dtype) < 8 || view->shape.size() < 2 ||
        (!view->strides.empty() && view->strides.size() != view->shape.size()))
      return false;
    if (std::any_of(view->shape.begin(), view->shape.end(), [](std::int64_t extent) { return extent < 0; }))
      return false;
  }
  for (const ArrayView* view : {&a, &b})
    if (!leading_axes(*view).empty() && !std::equal(leading_axes(*view).begin(), leading_axes(*view).end(),
                                                    leading_axes(d).begin(), leading_axes(d).end()))
      return false;
  return extent_from_last(a, 0) == extent_from_last(b, 1) && extent_from_last(a, 1) == extent_from_last(d, 1) &&
         extent_from_last(b, 0) == extent_from_last(d, 0);
}

// An operand for the kernels: the original array, or a row-major copy.
struct CpuOperand {
  MatrixLayout layout;
  const void* data = nullptr;
  std::optional<ArrayStorage> copy = {};
};

// Returns the single stride of all axes before the last two, or nullopt if they need several.
std::optional<std::int64_t> find_batch_stride(const ArrayView& view) {
  std::optional<std::int64_t> out;
  std::int64_t next = 0;
  for (std::size_t axis = view.shape.size() - 2; axis-- > 0;) {
    if (view.shape[axis] == 1) continue;
    if (out && view.strides[axis] != next) return std::nullopt;
    if (!out) out = view.strides[axis];
    next = view.strides[axis] * view.shape[axis];
  }
  return out.value_or(0);
}

Result<CpuOperand> make_operand(const ArrayView& view) {
  if (const auto layout = api::layout_for_kernels(view)) return CpuOperand{*layout, view.data, {}};
  RIDGE_TRY(copy, api::copy_row_major(view));
  CpuOperand out{api::row_major_layout(view), copy.array().data, {}};
  out.copy = std::move(copy);
  return out;
}

Status check_output(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  if (!api::is_row_major(d))
    return input_error("expected d to be row-major, without gaps, at a multiple of its element's size");
  if (api::has_overlap(a, d) || api::has_overlap(b, d)) return input_error("d shares memory with a or b");
  return Done{};
}

}  // namespace

ops::MatrixLayout api::row_major_layout(const ArrayView& view) {
  const std::int64_t rows = extent_from_last(view, 1), columns = extent_from_last(view, 0);
  return {view.dtype, columns, 1, leading_axes(view).empty() ? 0 : rows * columns};
}

std::optional<ops::MatrixLayout> api::layout_for_kernels(const ArrayView& view) {
  const auto at = reinterpret_cast<std::uintptr_t>(view.data);
  if (at % static_cast<std::uintptr_t>(dtype_bits(view.dtype) / 8) != 0) return std::nullopt;
  if (view.strides.empty()) return row_major_layout(view);
  const std::int64_t row = view.strides[view.strides.size() - 2], column = view.strides.back();
  const auto batch = find_batch_stride(view);
  const bool has_unit_stride =
      (column == 1 && row >= extent_from_last(view, 0)) || (row == 1 && column >= extent_from_last(view, 1));
  if (!batch || *batch < 0 || !has_unit_stride) return std::nullopt;
  return MatrixLayout{view.dtype, row, column, *batch};
}

bool api::is_empty(const ArrayView& array) { return contains(array.shape, 0); }

Status api::check_product(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  if (!has_matching_shapes(a, b, d)) return shape_error(a, b, d);
  if (is_empty(d)) return Done{};
  const bool has_sums = extent_from_last(a, 0) > 0;
  if (d.data == nullptr || (has_sums && (a.data == nullptr || b.data == nullptr)))
    return input_error("expected a, b and d to have memory");
  return check_output(a, b, d);
}

Status api::check_product(const ArrayView& a, const BlockScaledWeights& b, const ArrayView& d) {
  if (!is_block_scaled(b.dtype) || b.n < 0 || b.k < 0)
    return input_error(fmt::format("expected weights[n, k] of a dtype with block scales, found {}[{}, {}]",
                                   dtype_name(b.dtype), b.n, b.k));
  // Shapes and memory are checked as those of bytes.
  const std::vector<std::int64_t> shape{b.k, b.n}, bytes{stored_bytes(b.dtype, b.n * b.k)};
  void* const data = const_cast<void*>(b.data);
  if (!has_matching_shapes(a, ArrayView{data, DType::int8, shape, {}}, d))
    return input_error(fmt::format("expected a[..., m, k] * weights[n, k] -> d[..., m, n], found {} * {}[{}, {}] -> {}",
                                   describe_array(a), dtype_name(b.dtype), b.n, b.k, describe_array(d)));
  if (is_empty(d)) return Done{};
  if (d.data == nullptr || (b.k > 0 && (a.data == nullptr || b.data == nullptr)))
    return input_error("expected a, b and d to have memory");
  return check_output(a, ArrayView{data, DType::int8, bytes, {}}, d);
}

MatmulProblem api::make_problem(const MatrixLayout& a, const MatrixLayout& b, const ArrayView& left,
                                const ArrayView& d) {
  MatmulProblem out{.batch = 1,
                    .size = {extent_from_last(d, 1), extent_from_last(d, 0), extent_from_last(left, 0)},
                    .a = a,
                    .b = b,
                    .d = row_major_layout(d)};
  for (const std::int64_t each : leading_axes(d)) out.batch *= each;
  return out;
}

Status matmul(const ArrayView& a, const ArrayView& b, const ArrayView& d, int threads) {
  if (const Status valid = api::check_product(a, b, d); !valid || api::is_empty(d)) return valid;
  RIDGE_TRY(left, make_operand(a));
  RIDGE_TRY(right, make_operand(b));
  const MatmulProblem problem = api::make_problem(left.layout, right.layout, a, d);
  if (const auto reason = ops::unsupported_reason(problem)) return input_error(reason.text());
  ops::matmul(problem, left.data, right.data, d.data, threads > 0 ? threads : usable_cores());
  return Done{};
}

Status matmul(const ArrayView& a, const BlockScaledWeights& b, const ArrayView& d, int threads) {
  if (const Status valid = api::check_product(a, b, d); !valid || api::is_empty(d)) return valid;
  RIDGE_TRY(left, make_operand(a));
  const MatmulProblem problem = api::make_problem(left.layout, {b.dtype, 1, b.k, 0}, a, d);
  if (const auto reason = ops::unsupported_reason(problem)) return input_error(reason.text());
  ops::matmul(problem, left.data, b.data, d.data, threads > 0 ? threads : usable_cores());
  return Done{};
}

}  // namespace ridge
