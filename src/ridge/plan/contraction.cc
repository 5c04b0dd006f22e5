// Lowers a contraction to one batched matmul, D[b] = A[b]*B[b], with copies where memory order or dtype require them;
// and one or two products with a pointwise epilogue to one kernel.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/check.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

using Dims = std::vector<std::string>;

struct Matrix {
  int buffer;
  ops::MatrixLayout layout;
};

std::int64_t extent(const Shape& shape, const Dims& group) {
  std::int64_t n = 1;
  for (const std::string& dim : group) n *= along(shape, dim).extent;
  return n;
}

Dims merged(const Dims& a, const Dims& b, const Dims& c) {
  Dims out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

// Assigns dimensions to batch, M, N and K. The larger operand sets the order of K, since copying it costs more.
Groups grouped(const Shape& left, const Shape& right, const Shape& result) {
  Groups groups;
  for (const SizedAxis& axis : result) {
    if (axis.dim.empty()) continue;
    const bool l = has(left, axis.dim), r = has(right, axis.dim);
    auto& one_side = l ? groups.m : groups.n;
    (l && r ? groups.batch : one_side).push_back(axis.dim);
  }
  for (const SizedAxis& axis : elements(left) >= elements(right) ? left : right)
    if (!axis.dim.empty() && !has(result, axis.dim)) groups.k.push_back(axis.dim);
  return groups;
}

// Returns the layout of a matrix with these row and column dimensions, or nullopt if strides cannot express it.
std::optional<ops::MatrixLayout> layout(const View& view, const Dims& batch, const Dims& rows, const Dims& cols) {
  const auto batch_stride = merged_stride(view.shape, batch);
  const auto row_stride = merged_stride(view.shape, rows), col_stride = merged_stride(view.shape, cols);
  if (!batch_stride || !row_stride || !col_stride) return std::nullopt;
  ops::MatrixLayout out{view.dtype, *row_stride, *col_stride, *batch_stride};
  const std::int64_t r = extent(view.shape, rows), c = extent(view.shape, cols);
  // An extent of 1 needs no stride; the stride of a packed matrix satisfies the checks of every kernel.
  if (c == 1) out.col_stride = 1;
  if (r == 1) out.row_stride = out.col_stride == 1 ? c : 1;
  if (out.row_stride != 1 && out.col_stride != 1) return std::nullopt;
  return out;
}

// Prepares operands of products over the same dimensions, with copies to the required order and dtype.
class Operands {
 public:
  Operands(Lowering& to, int group, Groups groups) : to_(to), group_(group), groups_(std::move(groups)) {}
  const Groups& groups() const { return groups_; }

  // Returns the dtype in which an operand is multiplied. Equal dtypes need no conversion, nor does int8 (weights) with
  // any other; else both become f32, which is exact for bf16 and f16.
  DType math(int one, int other) const {
    const DType a = to_.dtype_of(one), b = to_.dtype_of(other);
    return a == b || a == DType::int8 || b == DType::int8 ? a : DType::f32;
  }

  Matrix operand(int tensor, DType math, const Dims& rows, const Dims& cols) {
    const View& view = to_.view(tensor);
    const auto direct = view.dtype == math ? layout(view, groups_.batch, rows, cols) : std::nullopt;
    if (direct) return {view.buffer, *direct};
    const Shape shape = packed(view.shape, merged(groups_.batch, rows, cols));
    const View copy{to_.add_buffer(math, elements(shape)), math, shape};
    to_.plan.steps.push_back(copy_step(group_, view, copy, describe(tensor, view, copy)));
    return {copy.buffer, *layout(copy, groups_.batch, rows, cols)};
  }

  std::string describe(int tensor, const View& from, const View& to) const {
    const std::string dtypes =
        from.dtype == to.dtype ? "" : fmt::format(", {} to {}", name(from.dtype), name(to.dtype));
    return fmt::format("{}{} to {} order{}", to_.tensor_name(tensor), text(from.shape), text(to.shape), dtypes);
  }

  // Returns the sizes of the product, with empty layouts.
  ops::MatmulProblem sizes(int left, int right, int result) const {
    const Shape &l = to_.shape_of(left), &r = to_.shape_of(right), &d = to_.shape_of(result);
    return {.batch = extent(d, groups_.batch),
            .m = extent(d, groups_.m),
            .n = extent(d, groups_.n),
            .k = extent(elements(l) >= elements(r) ? l : r, groups_.k),
            .a = {},
            .b = {},
            .d = {}};
  }

 private:
  Lowering& to_;
  int group_;
  Groups groups_;
};

class Matmul {
 public:
  Matmul(Lowering& to, int group, const Contraction& c)
      : to_(to),
        group_(group),
        contraction_(c),
        operands_(to, group, grouped(to.shape_of(c.left), to.shape_of(c.right), to.shape_of(c.result))) {}

  void lower() {
    const int left = contraction_.left, right = contraction_.right;
    const Groups& g = operands_.groups();
    const Matrix a = operands_.operand(left, operands_.math(left, right), g.m, g.k);
    const Matrix b = operands_.operand(right, operands_.math(right, left), g.k, g.n);
    const View& out = to_.view(contraction_.result);
    const auto direct = layout(out, g.batch, g.m, g.n);
    if (direct) return multiply(a, b, {out.buffer, *direct});
    const Shape shape = packed(out.shape, merged(g.batch, g.m, g.n));
    const View between{to_.add_buffer(out.dtype, elements(shape)), out.dtype, shape};
    multiply(a, b, {between.buffer, *layout(between, g.batch, g.m, g.n)});
    to_.plan.steps.push_back(copy_step(group_, between, out, operands_.describe(contraction_.result, between, out)));
  }

 private:
  void multiply(Matrix a, Matrix b, Matrix d) {
    ops::MatmulProblem problem = operands_.sizes(contraction_.left, contraction_.right, contraction_.result);
    problem.a = a.layout;
    problem.b = b.layout;
    problem.d = d.layout;
    // A column-major result is computed as the transposed product: D^T = B^T * A^T.
    if (problem.d.col_stride != 1) {
      std::swap(problem.m, problem.n);
      std::swap(problem.a, problem.b);
      std::swap(a.buffer, b.buffer);
      for (ops::MatrixLayout* each : {&problem.a, &problem.b, &problem.d})
        std::swap(each->row_stride, each->col_stride);
    }
    to_.plan.steps.push_back({group_, problem, {a.buffer, b.buffer, d.buffer}, ""});
  }

  Lowering& to_;
  int group_;
  const Contraction& contraction_;
  Operands operands_;
};

struct Product {  // tensors; the shared operand is `left`
  int result, left, right;
};

std::vector<Product> turned(const Program& program, const std::vector<int>& statements) {
  std::vector<Product> out;
  for (const int s : statements) {
    const auto& c = std::get<Contraction>(program.statements[static_cast<std::size_t>(s)].op);
    out.push_back({c.result, c.left, c.right});
  }
  if (out.size() != 2) return out;
  Product &a = out[0], &b = out[1];
  if (a.left != b.left && a.left != b.right) std::swap(a.left, a.right);
  if (a.left != b.left) std::swap(b.left, b.right);
  if (a.left != b.left) out.clear();
  return out;
}

bool same(Dims a, Dims b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// Lowers one or two products with their pointwise epilogue.
class FusedProducts {
 public:
  FusedProducts(Lowering& to, int group, const std::vector<int>& products)
      : to_(to), group_(group), products_(turned(to.program, products)), operands_(to, group, oriented()) {}

  void lower(const Group& group) {
    const Groups& g = operands_.groups();
    const Product& p = products_[0];
    ops::FusedMatmul out{.product = operands_.sizes(p.left, p.right, p.result), .second = {}, .chain = {}};
    const Matrix a = operands_.operand(p.left, operands_.math(p.left, p.right), g.m, g.k);
    const Matrix b = operands_.operand(p.right, operands_.math(p.right, p.left), g.k, g.n);
    out.product.a = a.layout;
    out.product.b = b.layout;
    out.product.d = {DType::f32, out.product.n, 1, out.product.m * out.product.n};
    std::vector<int> buffers{a.buffer, b.buffer, -1};
    if (products_.size() == 2) {
      const Matrix c = operands_.operand(products_[1].right, operands_.math(p.right, p.left), g.k, g.n);
      out.second = c.layout;
      buffers[2] = c.buffer;
    }
    LoweredChain chain = lower_chain_of(group, out.product);
    out.chain = std::move(chain.program);
    buffers.insert(buffers.end(), chain.buffers.begin() + out.products(), chain.buffers.end());
    to_.plan.steps.push_back({group_, std::move(out), std::move(buffers), ""});
  }

 private:
  // Makes the contiguous dimension of the result a column dimension; a single product may swap its operands for that.
  Groups oriented() {
    Product& p = products_[0];
    const Shape& result = to_.shape_of(p.result);
    Groups g = grouped(to_.shape_of(p.left), to_.shape_of(p.right), result);
    if (products_.size() == 2) return g;
    const Group& group = to_.plan.fusion.groups[static_cast<std::size_t>(group_)];
    const Shape& stored = to_.shape_of(group.results.back());
    for (auto axis = stored.rbegin(); axis != stored.rend(); ++axis) {
      if (axis->extent == 1) continue;
      if (std::find(g.m.begin(), g.m.end(), axis->dim) == g.m.end()) return g;
      std::swap(g.m, g.n);
      std::swap(p.left, p.right);
      return g;
    }
    return g;
  }

  View in_product(const View& view, const ops::MatmulProblem& p) const {
    const auto found = regrouped(view.shape, operands_.groups());
    RIDGE_CHECK(found.has_value(), "expected single strides along the dimensions of the product: " + text(view.shape));
    const std::array<std::int64_t, 3>& strides = *found;
    const auto axis = [&](const char* key, std::int64_t extent, std::int64_t stride) {
      return SizedAxis{key, stride == 0 ? 1 : extent, stride};
    };
    return {view.buffer,
            view.dtype,
            {axis("batch", p.batch, strides[0]), axis("m", p.m, strides[1]), axis("n", p.n, strides[2])}};
  }

  LoweredChain lower_chain_of(const Group& group, const ops::MatmulProblem& p) {
    const Shape space{{"batch", p.batch, p.m * p.n}, {"m", p.m, p.n}, {"n", p.n, 1}};
    std::vector<View> sums;
    for (std::size_t i = 0; i < products_.size(); ++i) sums.push_back({-1 - static_cast<int>(i), DType::f32, space});
    const Pointwise chain = joined(to_.program, group.statements, group.results);
    std::vector<std::optional<View>> views;
    std::vector<std::size_t> members;
    for (const Node& node : chain.nodes) {
      members.push_back(members.size());
      views.emplace_back();
      if (is_place(node)) views.back() = in_product(counting(to_, node), p);
      if (node.kind != Node::Kind::tensor) continue;
      views.back() = in_product(to_.view(node.tensor), p);
      for (std::size_t i = 0; i < products_.size(); ++i)
        if (products_[i].result == node.tensor) views.back() = sums[i];
    }
    std::vector<ChainResult> results;
    for (const Pointwise::Stored& stored : chain.results)
      results.push_back({stored.node, in_product(to_.view(stored.tensor), p)});
    return lower_chain(chain.nodes, members, results, {views, sums, space, to_.sizes});
  }

  Lowering& to_;
  int group_;
  std::vector<Product> products_;
  Operands operands_;
};

}  // namespace

std::optional<Groups> product_groups(const Program& program, const std::vector<Shape>& shapes,
                                     const std::vector<int>& statements) {
  const std::vector<Product> products = turned(program, statements);
  if (products.empty()) return std::nullopt;
  std::vector<Groups> all;
  for (const Product& p : products) {
    const auto of = [&](int tensor) -> const Shape& { return shapes[static_cast<std::size_t>(tensor)]; };
    all.push_back(grouped(of(p.left), of(p.right), of(p.result)));
    const auto dtype = [&](int tensor) { return program.tensors[static_cast<std::size_t>(tensor)].dtype; };
    const Groups &a = all.front(), &b = all.back();
    if (!same(a.batch, b.batch) || !same(a.m, b.m) || !same(a.n, b.n) || !same(a.k, b.k) ||
        dtype(p.right) != dtype(products[0].right))
      return std::nullopt;
  }
  return all.front();
}

ops::FusedMatmul fused_product(const Program& program, const std::vector<Shape>& shapes, const Group& group) {
  Bindings dims;
  for (const Shape& shape : shapes)
    for (const SizedAxis& axis : shape) dims[axis.dim] = axis.extent;
  Lowering trial{program, dims, dims, {}, {}};
  trial.plan.fusion.groups = {group};
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const DType dtype = program.tensors[t].dtype;
    trial.tensors.push_back({trial.add_buffer(dtype, elements(shapes[t])), dtype, shapes[t]});
  }
  lower_products(trial, 0);
  return std::get<ops::FusedMatmul>(std::move(trial.plan.steps.back().kernel));
}

std::optional<std::array<std::int64_t, 3>> regrouped(const Shape& shape, const Groups& groups) {
  std::array<std::int64_t, 3> out{};
  const Dims* const each[] = {&groups.batch, &groups.m, &groups.n};
  for (std::size_t i = 0; i < 3; ++i) {
    const bool none = std::none_of(each[i]->begin(), each[i]->end(), [&](auto& dim) { return has(shape, dim); });
    const bool all = std::all_of(each[i]->begin(), each[i]->end(), [&](auto& dim) { return has(shape, dim); });
    if (none) continue;
    const auto stride = all ? merged_stride(shape, *each[i]) : std::nullopt;
    if (!stride) return std::nullopt;
    out[i] = *stride;
  }
  return out;
}

void lower(Lowering& to, int group, const Contraction& c) { Matmul(to, group, c).lower(); }

// Lowers a grouped product: copies the operand with G = H/8, each element 8 times, and then multiplies over H.
static void lower_grouped(Lowering& to, int group, const Contraction& c) {
  const Contraction::Grouped& grouped = *c.grouped;
  const View before = to.view(grouped.tensor);
  const std::string part = "1/" + grouped.group;  // index among the 8
  Shape whole;
  std::vector<std::string> order;
  for (const SizedAxis& axis : before.shape) {
    whole.push_back(axis);
    if (!axis.dim.empty()) order.push_back(axis.dim);
    if (axis.dim != grouped.group) continue;
    whole.back() = {grouped.dim, axis.extent * grouped.each, 0};
    order.push_back(part);
  }
  Shape split = before.shape;
  split.push_back({part, grouped.each, 0});
  const Shape copied = packed(split, order);
  std::int64_t stride = 1;
  for (auto axis = whole.rbegin(); axis != whole.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->extent;
  }
  const View copy{to.add_buffer(before.dtype, elements(copied)), before.dtype, copied};
  to.plan.steps.push_back(copy_step(group, before, copy,
                                    fmt::format("{}{}, each {} repeated {} times", to.tensor_name(grouped.tensor),
                                                text(before.shape), grouped.group, grouped.each)));
  to.tensors[static_cast<std::size_t>(grouped.tensor)] = {copy.buffer, before.dtype, whole};
  lower(to, group, c);
  to.tensors[static_cast<std::size_t>(grouped.tensor)] = before;
}

void lower_products(Lowering& to, int group) {
  const Group g = to.plan.fusion.groups[static_cast<std::size_t>(group)];
  std::vector<int> products;
  for (const int s : g.statements) {
    const auto* c = std::get_if<Contraction>(&to.statement(s).op);
    if (c && sums(*c)) products.push_back(s);
  }
  const auto& first = std::get<Contraction>(to.statement(products[0]).op);
  if (first.grouped) return lower_grouped(to, group, first);
  if (g.statements.size() == 1) return lower(to, group, std::get<Contraction>(to.statement(products[0]).op));
  FusedProducts(to, group, products).lower(g);
}

}  // namespace ridge
