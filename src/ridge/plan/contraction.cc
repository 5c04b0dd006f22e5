// A contraction as one batched matmul, D[b] = A[b]*B[b], with copies where memory order or dtype stand in the way. A
// product without a sum is no matmul: it multiplies element by element, and is lowered to a chain.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/plan/lower.h"

namespace ridge {
namespace {

using Group = std::vector<std::string>;

struct Groups {
  Group batch, m, n, k;
};

struct Matrix {
  int buffer;
  kernels::MatrixLayout layout;
};

std::int64_t extent(const Shape& shape, const Group& group) {
  std::int64_t n = 1;
  for (const std::string& dim : group) n *= along(shape, dim).extent;
  return n;
}

Group joined(const Group& a, const Group& b, const Group& c) {
  Group out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

// The result orders batch, M and N; the larger operand orders K, since it is the dearer one to copy.
Groups grouped(const Shape& left, const Shape& right, const Shape& result) {
  Groups groups;
  for (const SizedAxis& axis : result) {
    if (axis.dim.empty()) continue;
    const bool l = has(left, axis.dim), r = has(right, axis.dim);
    (l && r ? groups.batch : l ? groups.m : groups.n).push_back(axis.dim);
  }
  for (const SizedAxis& axis : elements(left) >= elements(right) ? left : right)
    if (!axis.dim.empty() && !has(result, axis.dim)) groups.k.push_back(axis.dim);
  return groups;
}

// The layout of a matrix whose rows and columns are these groups; nothing where strides cannot say it.
std::optional<kernels::MatrixLayout> layout(const View& view, const Group& batch, const Group& rows,
                                            const Group& cols) {
  const auto batch_stride = merged_stride(view.shape, batch);
  const auto row_stride = merged_stride(view.shape, rows), col_stride = merged_stride(view.shape, cols);
  if (!batch_stride || !row_stride || !col_stride) return std::nullopt;
  kernels::MatrixLayout out{view.dtype, *row_stride, *col_stride, *batch_stride};
  const std::int64_t r = extent(view.shape, rows), c = extent(view.shape, cols);
  // Along an extent of 1 nothing moves: the stride that a packed matrix would have serves every kernel.
  if (c == 1) out.col_stride = 1;
  if (r == 1) out.row_stride = out.col_stride == 1 ? c : 1;
  if (out.row_stride != 1 && out.col_stride != 1) return std::nullopt;
  return out;
}

class Matmul {
 public:
  Matmul(Lowering& to, int statement, const Contraction& c)
      : to_(to),
        statement_(statement),
        contraction_(c),
        groups_(grouped(to.shape_of(c.left), to.shape_of(c.right), to.shape_of(c.result))) {}

  void lower() {
    const DType left = to_.dtype_of(contraction_.left), right = to_.dtype_of(contraction_.right);
    const DType result = to_.dtype_of(contraction_.result);
    // Two alike multiply as they are, and int8 (weights) with anything; else both become f32, which holds each bf16 and
    // f16 exactly.
    const bool as_they_are = left == right || left == DType::int8 || right == DType::int8;
    const Matrix a = operand(contraction_.left, as_they_are ? left : DType::f32, groups_.m, groups_.k);
    const Matrix b = operand(contraction_.right, as_they_are ? right : DType::f32, groups_.k, groups_.n);
    const View out{contraction_.result, result, to_.shape_of(contraction_.result)};
    const auto direct = layout(out, groups_.batch, groups_.m, groups_.n);
    if (direct) return multiply(a, b, {out.buffer, *direct});
    const Shape shape = packed(out.shape, joined(groups_.batch, groups_.m, groups_.n));
    const View between{to_.add_buffer(result, elements(shape)), result, shape};
    multiply(a, b, {between.buffer, *layout(between, groups_.batch, groups_.m, groups_.n)});
    to_.plan.steps.push_back(copy_step(statement_, between, out, describe(contraction_.result, between, out)));
  }

 private:
  std::string describe(int tensor, const View& from, const View& to) const {
    const std::string dtypes =
        from.dtype == to.dtype ? "" : fmt::format(", {} to {}", name(from.dtype), name(to.dtype));
    return fmt::format("{}{} to {} order{}", to_.tensor_name(tensor), text(from.shape), text(to.shape), dtypes);
  }

  Matrix operand(int tensor, DType math, const Group& rows, const Group& cols) {
    const View view{tensor, to_.dtype_of(tensor), to_.shape_of(tensor)};
    const auto direct = view.dtype == math ? layout(view, groups_.batch, rows, cols) : std::nullopt;
    if (direct) return {tensor, *direct};
    const Shape shape = packed(view.shape, joined(groups_.batch, rows, cols));
    const View copy{to_.add_buffer(math, elements(shape)), math, shape};
    to_.plan.steps.push_back(copy_step(statement_, view, copy, describe(tensor, view, copy)));
    return {copy.buffer, *layout(copy, groups_.batch, rows, cols)};
  }

  void multiply(Matrix a, Matrix b, Matrix d) {
    const Shape& left = to_.shape_of(contraction_.left);
    const Shape& result = to_.shape_of(contraction_.result);
    const Shape& inner =
        elements(left) >= elements(to_.shape_of(contraction_.right)) ? left : to_.shape_of(contraction_.right);
    kernels::MatmulProblem problem{.batch = extent(result, groups_.batch),
                                   .m = extent(result, groups_.m),
                                   .n = extent(result, groups_.n),
                                   .k = extent(inner, groups_.k),
                                   .a = a.layout,
                                   .b = b.layout,
                                   .d = d.layout};
    // A result that lies with its columns contiguous is the transposed product: D^T = B^T * A^T.
    if (problem.d.col_stride != 1) {
      std::swap(problem.m, problem.n);
      std::swap(problem.a, problem.b);
      std::swap(a.buffer, b.buffer);
      for (kernels::MatrixLayout* each : {&problem.a, &problem.b, &problem.d})
        std::swap(each->row_stride, each->col_stride);
    }
    to_.plan.steps.push_back({statement_, problem, {a.buffer, b.buffer, d.buffer}, ""});
  }

  Lowering& to_;
  int statement_;
  const Contraction& contraction_;
  Groups groups_;
};

Expression product(const Contraction& c) {
  Expression out{c.result, {}};
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.left});
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.right});
  out.nodes.push_back({.kind = Node::Kind::call, .function = Function::multiply, .arguments = {0, 1}});
  return out;
}

}  // namespace

void lower(Lowering& to, int statement, const Contraction& c) {
  // A verified contraction sums what both operands have and the result has not.
  const Shape& result = to.shape_of(c.result);
  const Shape& left = to.shape_of(c.left);
  const bool sums = std::any_of(left.begin(), left.end(),
                                [&](const SizedAxis& axis) { return !axis.dim.empty() && !has(result, axis.dim); });
  if (!sums) return lower(to, statement, product(c));
  Matmul(to, statement, c).lower();
}

}  // namespace ridge
