#include "ridge/ops/product/groups.h"

#include <fmt/format.h>

#include <limits>

#include "ridge/ops/product/layout.h"

namespace ridge::ops {
namespace {

const void* advance_pointer(const void* data, DType dtype, std::int64_t elements) {
  return data == nullptr ? nullptr : static_cast<const char*>(data) + stored_bytes(dtype, elements);
}

}  // namespace

Reason validate_groups(const MatmulProblem& p) {
  if (!p.grouped) return {};
  const bool is_a = p.a.batch_stride != 0;
  if (is_a || p.d.batch_stride != 0)
    return fmt::format("{}: expected a batch stride of 0 for grouped rows of one matrix, found {}", is_a ? "a" : "d",
                       (is_a ? p.a : p.d).batch_stride);
  if (canonical_layout(p.d, p.size.m, p.size.n).col_stride != 1)
    return "d: expected contiguous rows for grouped rows, found contiguous columns";
  constexpr std::int64_t max_index = std::numeric_limits<std::int32_t>::max();
  if (p.size.m > max_index || p.batch >= max_index)
    return fmt::format("expected at most {} grouped rows and fewer groups, found {} and {}", max_index, p.size.m,
                       p.batch);
  return {};
}

Reason validate_group_starts(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  if (!p.grouped || p.batch == 0 || p.size.m == 0) return {};
  if (call.starts == nullptr) return "starts: expected a number for each group and one more, found a null pointer";
  for (std::int64_t i = 0; i <= p.batch; ++i) {
    const std::int64_t previous = i == 0 ? 0 : call.starts[i - 1];
    if (call.starts[i] < previous || call.starts[i] > p.size.m)
      return fmt::format("starts: expected number {} in {} … {}, found {}", i, previous, p.size.m, call.starts[i]);
  }
  return {};
}

MatmulCall extract_group(const MatmulCall& call, std::int64_t i) {
  const std::int64_t first = call.starts[i];
  MatmulCall out = call;
  MatmulProblem& p = out.problem;
  p.grouped = false;
  p.batch = 1;
  p.size.m = call.starts[i + 1] - first;
  out.starts = nullptr;
  out.a = advance_pointer(call.a, p.a.dtype, first * p.a.row_stride);
  out.b = advance_pointer(call.b, p.b.dtype, i * p.b.batch_stride);
  out.d = const_cast<void*>(advance_pointer(call.d, p.d.dtype, first * p.d.row_stride));
  MatmulEpilogue& e = out.epilogue;
  for (EpilogueOperand* x : {&e.scale, &e.bias, &e.gate, &e.addend})
    x->data = advance_pointer(x->data, x->dtype, i * x->batch_stride + first * x->row_stride);
  return out;
}

}  // namespace ridge::ops
