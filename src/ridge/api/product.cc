// Products of the caller's arrays on this CPU, as ridge/compute.h has them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/product.h"
#include "ridge/api/views.h"
#include "ridge/base/cores.h"
#include "ridge/ops/product/cpu.h"

namespace ridge {
namespace {

using ops::MatmulProblem;
using ops::MatrixLayout;

std::string text_of(const ArrayView& view) {
  return fmt::format("{}[{}]", name(view.dtype), fmt::join(view.shape, ", "));
}

Error refused(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  return input_error(
      fmt::format("expected a[..., m, k] * b[..., k, n] -> d[..., m, n] of one type, found {} * {} -> {}", text_of(a),
                  text_of(b), text_of(d)));
}

std::span<const std::int64_t> leading(const ArrayView& view) { return view.shape.first(view.shape.size() - 2); }
std::int64_t extent(const ArrayView& view, std::size_t from_last) {
  return view.shape[view.shape.size() - 1 - from_last];
}

bool fits_together(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  for (const ArrayView* view : {&a, &b, &d}) {
    if (bits(view->dtype) < 8 || view->shape.size() < 2 ||
        (!view->strides.empty() && view->strides.size() != view->shape.size()))
      return false;
    if (std::any_of(view->shape.begin(), view->shape.end(), [](std::int64_t extent) { return extent < 0; }))
      return false;
  }
  for (const ArrayView* view : {&a, &b})
    if (!leading(*view).empty() &&
        !std::equal(leading(*view).begin(), leading(*view).end(), leading(d).begin(), leading(d).end()))
      return false;
  return extent(a, 0) == extent(b, 1) && extent(a, 1) == extent(d, 1) && extent(b, 0) == extent(d, 0);
}

// An operand as the kernels walk it: where it lies, or a copy.
struct Operand {
  MatrixLayout layout;
  const void* data = nullptr;
  std::optional<ArrayStorage> copy = {};
};

// One stride for all axes before the last two; none: they have none in common.
std::optional<std::int64_t> batch_stride(const ArrayView& view, const std::vector<std::int64_t>& strides) {
  std::optional<std::int64_t> out;
  std::int64_t next = 0;
  for (std::size_t axis = view.shape.size() - 2; axis-- > 0;) {
    if (view.shape[axis] == 1) continue;
    if (out && strides[axis] != next) return std::nullopt;
    if (!out) out = strides[axis];
    next = strides[axis] * view.shape[axis];
  }
  return out.value_or(0);
}

Result<Operand> operand(const ArrayView& view) {
  if (const auto layout = api::walked(view)) return Operand{*layout, view.data, {}};
  auto copy = api::plain_copy(view);
  if (!copy) return copy.error();
  Operand out{api::plain_layout(view), copy->array().data, {}};
  out.copy = *std::move(copy);
  return out;
}

Status check_output(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  if (!api::is_plain(d))
    return input_error("expected d to be row-major, without gaps, at a multiple of its element's size");
  if (api::overlap(a, d) || api::overlap(b, d)) return input_error("d shares memory with a or b");
  return Done{};
}

}  // namespace

ops::MatrixLayout api::plain_layout(const ArrayView& view) {
  const std::int64_t rows = extent(view, 1), columns = extent(view, 0);
  return {view.dtype, columns, 1, leading(view).empty() ? 0 : rows * columns};
}

std::optional<ops::MatrixLayout> api::walked(const ArrayView& view) {
  const auto at = reinterpret_cast<std::uintptr_t>(view.data);
  if (at % static_cast<std::uintptr_t>(bits(view.dtype) / 8) != 0) return std::nullopt;
  if (view.strides.empty()) return plain_layout(view);
  const std::vector<std::int64_t> strides(view.strides.begin(), view.strides.end());
  const std::int64_t row = strides[strides.size() - 2], column = strides.back();
  const auto batch = batch_stride(view, strides);
  const bool walks = (column == 1 && row >= extent(view, 0)) || (row == 1 && column >= extent(view, 1));
  if (!batch || *batch < 0 || !walks) return std::nullopt;
  return MatrixLayout{view.dtype, row, column, *batch};
}

bool api::is_empty(const ArrayView& array) {
  return std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
}

Status api::check_product(const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  if (!fits_together(a, b, d)) return refused(a, b, d);
  if (is_empty(d)) return Done{};
  const bool has_sums = extent(a, 0) > 0;
  if (d.data == nullptr || (has_sums && (a.data == nullptr || b.data == nullptr)))
    return input_error("expected memory behind a, b and d");
  return check_output(a, b, d);
}

MatmulProblem api::problem_of(const MatrixLayout& a, const MatrixLayout& b, const ArrayView& left, const ArrayView& d) {
  MatmulProblem out{
      .batch = 1, .m = extent(d, 1), .n = extent(d, 0), .k = extent(left, 0), .a = a, .b = b, .d = plain_layout(d)};
  for (const std::int64_t each : leading(d)) out.batch *= each;
  return out;
}

Status matmul(const ArrayView& a, const ArrayView& b, const ArrayView& d, int threads) {
  if (const Status fits = api::check_product(a, b, d); !fits || api::is_empty(d)) return fits;
  const auto left = operand(a), right = operand(b);
  if (!left) return left.error();
  if (!right) return right.error();
  const MatmulProblem problem = api::problem_of(left->layout, right->layout, a, d);
  if (const auto why = ops::refuse(problem)) return input_error(*why);
  ops::matmul(problem, left->data, right->data, d.data, threads > 0 ? threads : usable_cores());
  return Done{};
}

}  // namespace ridge
