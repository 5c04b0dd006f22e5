// Lowers a contraction to one batched matmul, D[b] = A[b]*B[b], with copies where memory order or dtype require them;
// and one or two products with a pointwise epilogue to one kernel.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ridge/base/check.h"
#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

using DimList = std::vector<std::string>;

struct MatrixOperand {
  int buffer;
  ops::MatrixLayout layout;
};

DimList concat_dims(const DimList& a, const DimList& b, const DimList& c) {
  DimList out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

// Assigns dimensions to batch, M, N and K. The larger operand sets the order of K, since copying it costs more.
ProductDims assign_product_dims(const Shape& left, const Shape& right, const Shape& result) {
  ProductDims product_dims;
  for (const SizedAxis& axis : result) {
    if (axis.dim.empty()) continue;
    const bool l = has_axis(left, axis.dim), r = has_axis(right, axis.dim);
    auto& one_side = l ? product_dims.m : product_dims.n;
    (l && r ? product_dims.batch : one_side).push_back(axis.dim);
  }
  for (const SizedAxis& axis : count_elements(left) >= count_elements(right) ? left : right)
    if (!axis.dim.empty() && !has_axis(result, axis.dim)) product_dims.k.push_back(axis.dim);
  return product_dims;
}

// Returns the layout of a matrix with these row and column dimensions, or nullopt if strides cannot express it.
std::optional<ops::MatrixLayout> matrix_layout(const View& view, const DimList& batch, const DimList& rows,
                                               const DimList& cols) {
  const auto batch_stride = merged_stride(view.shape, batch);
  const auto row_stride = merged_stride(view.shape, rows), col_stride = merged_stride(view.shape, cols);
  if (!batch_stride || !row_stride || !col_stride) return std::nullopt;
  ops::MatrixLayout out{view.dtype, *row_stride, *col_stride, *batch_stride};
  const std::int64_t r = extent_along(view.shape, rows), c = extent_along(view.shape, cols);
  // An extent of 1 needs no stride; the stride of a packed matrix satisfies the checks of every kernel.
  if (c == 1) out.col_stride = 1;
  if (r == 1) out.row_stride = out.col_stride == 1 ? c : 1;
  if (out.row_stride != 1 && out.col_stride != 1) return std::nullopt;
  return out;
}

// Prepares operands of products over the same dimensions, with copies to the required order and dtype.
class ProductOperands {
 public:
  ProductOperands(Lowering& to, int group, ProductDims groups) : to_(to), group_(group), dims_(std::move(groups)) {}
  const ProductDims& product_dims() const { return dims_; }

  // Returns the dtype in which an operand is given to the product. Equal dtypes need no conversion, nor does int8
  // (weights) with any other, nor a block-scaled operand. Two operands of e4m3 stay so on a device, in the order that
  // they have in memory; with f32 they become f32, and else 16 bits, which are exact. All others become f32, which is
  // exact, too. A device drops 13 bits of two operands of tf32, a CPU none. It multiplies narrow weights as they are
  // stored, or converts them to the dtype of the other operand.
  DType math_dtype(int one, int other) const {
    const DType a = to_.dtype_of(one), b = to_.dtype_of(other);
    if (is_block_scaled(a)) return a;
    if (is_block_scaled(b)) return dequantized_dtype(to_.plan.fusion.target, a, b);
    const auto is_tf32 = [&](int tensor) { return to_.program.tensors[tensor].dtype == DType::tf32; };
    if (is_tf32(one) && is_tf32(other)) return to_.plan.fusion.target == Target::cuda ? DType::tf32 : DType::f32;
    if (to_.plan.fusion.target == Target::cuda) {
      if (ops::is_narrow_weight(a) && SixteenBitFloats::contains(b)) return reads_stored_weights(one, b) ? a : b;
      if (ops::is_narrow_weight(b) && SixteenBitFloats::contains(a)) return a;
      if ((a == DType::int8) != (b == DType::int8)) return DType::f32;
    }
    if (a == DType::e4m3 && b == DType::e4m3)
      return to_.plan.fusion.target == Target::cuda && is_matrix(one) && is_matrix(other) ? a : DType::bf16;
    if (a == DType::e4m3 || b == DType::e4m3) {
      const DType wider = a == DType::e4m3 ? b : a;
      if (wider == DType::int8) return a == DType::int8 ? a : DType::bf16;
      return SixteenBitFloats::contains(wider) ? wider : DType::f32;
    }
    return a == b || a == DType::int8 || b == DType::int8 ? a : DType::f32;
  }

  // True if a device multiplies these narrow weights as they are stored with activations of this dtype.
  bool reads_stored_weights(int weights, DType activations) const {
    const View& view = to_.view_of(weights);
    const bool is_left = is_left_operand(view);
    const auto layout = matrix_layout(view, dims_.batch, dims_.k, is_left ? dims_.m : dims_.n);
    if (!layout) return false;
    const auto extent = [&](const DimList& along) {
      std::int64_t out = 1;
      for (const std::string& dim : along) out *= to_.dims.at(dim);
      return out;
    };
    return !ops::reason_to_convert_weights(
        {.batch = extent_along(view.shape, dims_.batch),
         .size = {extent(is_left ? dims_.n : dims_.m), extent_along(view.shape, is_left ? dims_.m : dims_.n),
                  extent_along(view.shape, dims_.k)},
         .a = {.dtype = activations},
         .b = *layout,
         .d = {}});
  }

  MatrixOperand prepare_operand(int tensor, DType math, const DimList& rows, const DimList& cols) {
    View view = to_.view_of(tensor);
    const DType stored = math == DType::tf32 ? DType::f32 : math;
    const auto direct = view.dtype == stored ? matrix_layout(view, dims_.batch, rows, cols) : std::nullopt;
    if (direct) return {view.buffer, with_dtype(*direct, math)};
    DimList order = concat_dims(dims_.batch, rows, cols);
    if (is_dense(view.shape) && matrix_layout(view, dims_.batch, rows, cols))  // only converts, so the order stays
      std::ranges::stable_sort(order, {}, [&](const std::string& dim) { return -axis_along(view.shape, dim).stride; });
    const Shape shape = contiguous_shape(view.shape, order);
    const View copy{to_.add_buffer(stored, count_elements(shape)), stored, shape};
    const std::string description = describe_copy(tensor, view, copy);
    const bool only_converts =
        is_dense(view.shape) && keeps_order(view.shape, order) && count_elements(shape) % 32 == 0;
    if (to_.plan.fusion.target == Target::cuda && ops::is_narrow_weight(view.dtype) && only_converts) {
      to_.plan.steps.push_back({group_,
                                ops::DequantizeLoops{view.dtype, stored, count_elements(shape)},
                                {view.buffer, copy.buffer},
                                description});
      return {copy.buffer, with_dtype(*matrix_layout(copy, dims_.batch, rows, cols), math)};
    }
    view.shape.clear();
    for (const std::string& dim : order) view.shape.push_back(axis_along(to_.shape_of(tensor), dim));
    add_copy(to_, group_, view, copy, description);
    return {copy.buffer, with_dtype(*matrix_layout(copy, dims_.batch, rows, cols), math)};
  }

  std::string describe_copy(int tensor, const View& from, const View& to) const {
    const std::string dtypes =
        from.dtype == to.dtype ? "" : fmt::format(", {} to {}", dtype_name(from.dtype), dtype_name(to.dtype));
    return fmt::format("{}{} to {} order{}", to_.tensor_name(tensor), format_shape(from.shape), format_shape(to.shape),
                       dtypes);
  }

  // Returns the sizes of the product, with empty layouts.
  ops::MatmulProblem make_problem(int left, int right, int result) const {
    const Shape &l = to_.shape_of(left), &r = to_.shape_of(right), &d = to_.shape_of(result);
    return {.batch = extent_along(d, dims_.batch),
            .size = {extent_along(d, dims_.m), extent_along(d, dims_.n),
                     extent_along(count_elements(l) >= count_elements(r) ? l : r, dims_.k)},
            .a = {},
            .b = {},
            .d = {}};
  }

 private:
  static ops::MatrixLayout with_dtype(ops::MatrixLayout layout, DType dtype) {
    layout.dtype = dtype;
    return layout;
  }
  // True if the named dimensions of a shape are in this order in memory.
  static bool keeps_order(const Shape& shape, const DimList& order) {
    return std::ranges::is_sorted(order, {}, [&](const std::string& dim) {
      const SizedAxis axis = axis_along(shape, dim);
      return axis.extent == 1 ? std::numeric_limits<std::int64_t>::min() : -axis.stride;
    });
  }
  bool is_left_operand(const View& view) const {
    const auto has = [&](const std::string& dim) { return has_axis(view.shape, dim); };
    return std::ranges::all_of(dims_.m, has) && std::ranges::none_of(dims_.n, has);
  }
  // True if strides can express the operand as a matrix, so that it needs no copy.
  bool is_matrix(int tensor) const {
    const View& view = to_.view_of(tensor);
    const bool is_left = is_left_operand(view);
    return matrix_layout(view, dims_.batch, is_left ? dims_.m : dims_.k, is_left ? dims_.k : dims_.n).has_value();
  }

  Lowering& to_;
  int group_;
  ProductDims dims_;
};

class MatmulLowering {
 public:
  MatmulLowering(Lowering& to, int group, const Contraction& c)
      : to_(to),
        group_(group),
        contraction_(c),
        operands_(to, group, assign_product_dims(to.shape_of(c.left), to.shape_of(c.right), to.shape_of(c.result))) {}

  void lower_matmul() {
    const int left = contraction_.left, right = contraction_.right;
    const ProductDims& g = operands_.product_dims();
    const MatrixOperand a = operands_.prepare_operand(left, operands_.math_dtype(left, right), g.m, g.k);
    const MatrixOperand b = operands_.prepare_operand(right, operands_.math_dtype(right, left), g.k, g.n);
    const View& out = to_.view_of(contraction_.result);
    const auto direct = matrix_layout(out, g.batch, g.m, g.n);
    if (direct) return add_matmul(a, b, {out.buffer, *direct});
    const Shape shape = contiguous_shape(out.shape, concat_dims(g.batch, g.m, g.n));
    const View between{to_.add_buffer(out.dtype, count_elements(shape)), out.dtype, shape};
    add_matmul(a, b, {between.buffer, *matrix_layout(between, g.batch, g.m, g.n)});
    to_.plan.steps.push_back(
        make_copy_step(group_, between, out, operands_.describe_copy(contraction_.result, between, out)));
  }

 private:
  void add_matmul(MatrixOperand a, MatrixOperand b, MatrixOperand d) {
    ops::MatmulProblem problem = operands_.make_problem(contraction_.left, contraction_.right, contraction_.result);
    problem.a = a.layout;
    problem.b = b.layout;
    problem.d = d.layout;
    // A column-major result is computed as the transposed product: D^T = B^T * A^T.
    if (problem.d.col_stride != 1) {
      std::swap(problem.size.m, problem.size.n);
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
  ProductOperands operands_;
};

struct OrientedProduct {  // tensors of a product; `left` is the operand that the group's products share
  int result, left, right;
};

std::vector<OrientedProduct> orient_products(const Program& program, const std::vector<int>& statements) {
  std::vector<OrientedProduct> out;
  for (const int s : statements) {
    const auto& c = std::get<Contraction>(program.statements[s].op);
    out.push_back({c.result, c.left, c.right});
  }
  if (out.size() != 2) return out;
  OrientedProduct &a = out[0], &b = out[1];
  if (a.left != b.left && a.left != b.right) std::swap(a.left, a.right);
  if (a.left != b.left) std::swap(b.left, b.right);
  if (a.left != b.left) out.clear();
  return out;
}

bool same_dims(DimList a, DimList b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// Lowers one or two products with their pointwise epilogue.
class FusedMatmulLowering {
 public:
  FusedMatmulLowering(Lowering& to, int group, const std::vector<int>& products)
      : to_(to),
        group_(group),
        products_(orient_products(to.program, products)),
        operands_(to, group, choose_orientation()) {}

  void lower_group() {
    const ProductDims& g = operands_.product_dims();
    const OrientedProduct& p = products_[0];
    ops::FusedMatmul out{.product = operands_.make_problem(p.left, p.right, p.result), .second = {}, .chain = {}};
    const MatrixOperand a = operands_.prepare_operand(p.left, operands_.math_dtype(p.left, p.right), g.m, g.k);
    const MatrixOperand b = operands_.prepare_operand(p.right, operands_.math_dtype(p.right, p.left), g.k, g.n);
    out.product.a = a.layout;
    out.product.b = b.layout;
    out.product.d = {DType::f32, out.product.size.n, 1, out.product.size.m * out.product.size.n};
    std::vector<int> buffers{a.buffer, b.buffer, -1};
    if (products_.size() == 2) {
      const MatrixOperand c =
          operands_.prepare_operand(products_[1].right, operands_.math_dtype(p.right, p.left), g.k, g.n);
      out.second = c.layout;
      buffers[2] = c.buffer;
    }
    std::vector<int> sums;
    for (const OrientedProduct& each : products_) sums.push_back(each.result);
    add_fused_product(to_, group_, std::move(out), std::move(buffers), {g, sums});
  }

 private:
  // Makes the contiguous dimension of the result a column dimension; a single product may swap its operands for that.
  ProductDims choose_orientation() {
    OrientedProduct& p = products_[0];
    const Shape& result = to_.shape_of(p.result);
    ProductDims g = assign_product_dims(to_.shape_of(p.left), to_.shape_of(p.right), result);
    if (products_.size() == 2) return g;
    const FusionGroup& group = to_.plan.fusion.groups[group_];
    const Shape& stored = to_.shape_of(group.results.back());
    for (auto axis = stored.rbegin(); axis != stored.rend(); ++axis) {
      if (axis->extent == 1) continue;
      if (!contains(g.m, axis->dim)) return g;
      std::swap(g.m, g.n);
      std::swap(p.left, p.right);
      return g;
    }
    return g;
  }

  Lowering& to_;
  int group_;
  std::vector<OrientedProduct> products_;
  ProductOperands operands_;
};

}  // namespace

std::optional<ProductDims> find_product_dims(const Program& program, const std::vector<Shape>& shapes,
                                             const std::vector<int>& statements) {
  const std::vector<OrientedProduct> products = orient_products(program, statements);
  if (products.empty()) return std::nullopt;
  std::vector<ProductDims> all;
  for (const OrientedProduct& p : products) {
    const auto of = [&](int tensor) -> const Shape& { return shapes[tensor]; };
    all.push_back(assign_product_dims(of(p.left), of(p.right), of(p.result)));
    const auto dtype = [&](int tensor) { return program.tensors[tensor].dtype; };
    const ProductDims &a = all.front(), &b = all.back();
    if (!same_dims(a.batch, b.batch) || !same_dims(a.m, b.m) || !same_dims(a.n, b.n) || !same_dims(a.k, b.k) ||
        dtype(p.right) != dtype(products[0].right))
      return std::nullopt;
  }
  return all.front();
}

ops::FusedMatmul make_fused_matmul(const Program& program, const std::vector<Shape>& shapes, const FusionGroup& group) {
  Bindings dims;
  for (const Shape& shape : shapes)
    for (const SizedAxis& axis : shape) dims[axis.dim] = axis.extent;
  Lowering trial{program, dims, dims, {}, {}};
  trial.plan.fusion.target = Target::cuda;
  trial.plan.fusion.groups = {group};
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const DType dtype = program.tensors[t].dtype;
    trial.tensors.push_back({trial.add_buffer(dtype, count_elements(shapes[t])), dtype, shapes[t]});
  }
  lower_products(trial, 0);
  return std::get<ops::FusedMatmul>(std::move(trial.plan.steps.back().kernel));
}

std::optional<std::array<std::int64_t, 3>> product_strides(const Shape& shape, const ProductDims& groups) {
  std::array<std::int64_t, 3> out{};
  const DimList* const each[] = {&groups.batch, &groups.m, &groups.n};
  for (std::size_t i = 0; i < 3; ++i) {
    const bool none = std::none_of(each[i]->begin(), each[i]->end(), [&](auto& dim) { return has_axis(shape, dim); });
    const bool all = std::all_of(each[i]->begin(), each[i]->end(), [&](auto& dim) { return has_axis(shape, dim); });
    if (none) continue;
    const auto stride = all ? merged_stride(shape, *each[i]) : std::nullopt;
    if (!stride) return std::nullopt;
    out[i] = *stride;
  }
  return out;
}

// Returns a view with the strides along batch, m and n of a product.
static View view_in_product(const View& view, const ops::MatmulProblem& p, const ProductDims& dims) {
  const auto found = product_strides(view.shape, dims);
  RIDGE_CHECK(found.has_value(),
              "expected single strides along the dimensions of the product: " + format_shape(view.shape));
  const std::array<std::int64_t, 3>& strides = *found;
  const auto axis = [&](const char* key, std::int64_t extent, std::int64_t stride) {
    return SizedAxis{key, stride == 0 ? 1 : extent, stride};
  };
  return {view.buffer,
          view.dtype,
          {axis("batch", p.batch, strides[0]), axis("m", p.size.m, strides[1]), axis("n", p.size.n, strides[2])}};
}

// Returns the pointwise statements of a group as a chain over batch, m and n of its product.
static LoweredChain lower_epilogue(Lowering& to, const FusionGroup& group, const ops::MatmulProblem& p,
                                   const ProductSums& of) {
  const Shape space{{"batch", p.batch, p.size.m * p.size.n}, {"m", p.size.m, p.size.n}, {"n", p.size.n, 1}};
  std::vector<View> sums;
  for (std::size_t i = 0; i < of.tensors.size(); ++i) sums.push_back({-1 - static_cast<int>(i), DType::f32, space});
  const JoinedNodes chain = join_statements(to.program, group.statements, group.results);
  std::vector<std::optional<View>> views;
  std::vector<std::size_t> members;
  for (const Node& node : chain.nodes) {
    members.push_back(members.size());
    views.emplace_back();
    if (is_position(node)) views.back() = view_in_product(make_index_view(to, node), p, of.dims);
    if (node.kind != Node::Kind::tensor) continue;
    views.back() = view_in_product(to.view_of(node.tensor), p, of.dims);
    for (std::size_t i = 0; i < of.tensors.size(); ++i)
      if (of.tensors[i] == node.tensor) views.back() = sums[i];
  }
  std::vector<ChainResult> results;
  for (const JoinedNodes::StoredNode& stored : chain.results)
    results.push_back({stored.node, view_in_product(to.view_of(stored.tensor), p, of.dims)});
  return lower_chain(chain.nodes, members, results, {views, sums, space, to.sizes});
}

void add_fused_product(Lowering& to, int group, ops::FusedMatmul product, std::vector<int> operands,
                       const ProductSums& sums) {
  LoweredChain chain = lower_epilogue(to, to.plan.fusion.groups[group], product.product, sums);
  product.chain = std::move(chain.program);
  operands.insert(operands.end(), chain.buffers.begin() + product.product_count(), chain.buffers.end());
  to.plan.steps.push_back({group, std::move(product), std::move(operands), ""});
}

void lower_contraction(Lowering& to, int group, const Contraction& c) { MatmulLowering(to, group, c).lower_matmul(); }

// bf16 has every product of an element and a scale of mxfp8, mxfp4 and nvfp4 (but for the smallest), and is taken
// unless the other operand needs f32. Blocks of integers take the dtype of 16-bit activations: where a device does not
// read them as they are stored, they are rounded to it. A CPU has no such product for f16.
DType dequantized_dtype(Target target, DType a, DType b) {
  const auto keeps = [&](DType x) {
    return x == DType::bf16 || (target == Target::cuda && SixteenBitFloats::contains(x));
  };
  if (has_integer_blocks(a) && keeps(b)) return b;
  if (has_integer_blocks(b) && keeps(a)) return a;
  const auto fits_bf16 = [](DType dtype) {
    return dtype == DType::bf16 || (is_block_scaled(dtype) && dtype != DType::e4m3_128 && !has_integer_blocks(dtype));
  };
  return fits_bf16(a) && fits_bf16(b) ? DType::bf16 : DType::f32;
}

bool can_multiply_scaled(const Lowering& to, const Contraction& c, int tensor) {
  if (!has_sum(c) || c.left == c.right) return false;
  const bool is_left = tensor == c.left;
  const View &view = to.view_of(tensor), &other = to.view_of(is_left ? c.right : c.left);
  if (to.plan.fusion.target == Target::cuda) {
    const ProductDims dims = assign_product_dims(to.shape_of(c.left), to.shape_of(c.right), to.shape_of(c.result));
    return ops::is_narrow_weight(view.dtype) && !c.grouped &&
           ProductOperands(const_cast<Lowering&>(to), 0, dims)
               .reads_stored_weights(tensor, dequantized_dtype(Target::cuda, view.dtype, other.dtype));
  }
  if (count_elements(view.shape) < count_elements(other.shape)) return false;
  const ProductDims dims = assign_product_dims(to.shape_of(c.left), to.shape_of(c.right), to.shape_of(c.result));
  const auto layout = matrix_layout(view, dims.batch, dims.k, is_left ? dims.m : dims.n);
  if (!layout) return false;
  const ops::MatmulProblem problem{
      .batch = extent_along(view.shape, dims.batch),
      .size = {1, extent_along(view.shape, is_left ? dims.m : dims.n), extent_along(view.shape, dims.k)},
      .a = {.dtype = dequantized_dtype(Target::cpu, view.dtype, other.dtype)},
      .b = *layout,
      .d = {}};
  return !validate_scaled_operand(problem);
}

bool can_multiply_scaled_pair(const Lowering& to, const Contraction& c) {
  if (to.plan.fusion.target != Target::cuda || !has_sum(c)) return false;
  const View &left = to.view_of(c.left), &right = to.view_of(c.right);
  if (left.dtype != DType::e4m3_128 || right.dtype != DType::e4m3_128) return false;
  const ProductDims dims = assign_product_dims(left.shape, right.shape, to.shape_of(c.result));
  const auto a = matrix_layout(left, dims.batch, dims.m, dims.k), b = matrix_layout(right, dims.batch, dims.k, dims.n);
  if (!a || !b) return false;
  const std::int64_t n = extent_along(right.shape, dims.n);
  const ops::MatmulProblem problem{.batch = extent_along(to.shape_of(c.result), dims.batch),
                                   .size = {extent_along(left.shape, dims.m), n, extent_along(left.shape, dims.k)},
                                   .a = *a,
                                   .b = *b,
                                   .d = {DType::bf16, n, 1, n * extent_along(left.shape, dims.m)}};
  const bool has_one_result = problem.size.m == 1 && n == 1;  // A tile would be mostly padding
  return !has_one_result && !ops::validate_scaled_pair(problem);
}

// Lowers a grouped product: copies the operand with G = H/8, each element 8 times, and then multiplies over H.
static void lower_grouped_product(Lowering& to, int group, const Contraction& c) {
  const Contraction::GroupedOperand& grouped = *c.grouped;
  const View before = to.view_of(grouped.tensor);
  const std::string member_dim = "1/" + grouped.group;  // index among the 8
  Shape expanded;
  std::vector<std::string> order;
  for (const SizedAxis& axis : before.shape) {
    expanded.push_back(axis);
    if (!axis.dim.empty()) order.push_back(axis.dim);
    if (axis.dim != grouped.group) continue;
    expanded.back() = {grouped.dim, axis.extent * grouped.group_size, 0};
    order.push_back(member_dim);
  }
  Shape split = before.shape;
  split.push_back({member_dim, grouped.group_size, 0});
  const Shape copied = contiguous_shape(split, order);
  std::int64_t stride = 1;
  for (auto axis = expanded.rbegin(); axis != expanded.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->extent;
  }
  const View copy{to.add_buffer(before.dtype, count_elements(copied)), before.dtype, copied};
  to.plan.steps.push_back(make_copy_step(group, before, copy,
                                         fmt::format("{}{}, each {} repeated {} times", to.tensor_name(grouped.tensor),
                                                     format_shape(before.shape), grouped.group, grouped.group_size)));
  to.tensors[grouped.tensor] = {copy.buffer, before.dtype, expanded};
  lower_contraction(to, group, c);
  to.tensors[grouped.tensor] = before;
}

void lower_products(Lowering& to, int group) {
  const FusionGroup g = to.plan.fusion.groups[group];
  if (lower_convolution(to, group)) return;
  std::vector<int> products;
  for (const int s : g.statements) {
    const auto* c = std::get_if<Contraction>(&to.statement_at(s).op);
    if (c && has_sum(*c)) products.push_back(s);
  }
  const auto& first = std::get<Contraction>(to.statement_at(products[0]).op);
  if (first.grouped) return lower_grouped_product(to, group, first);
  if (g.statements.size() == 1)
    return lower_contraction(to, group, std::get<Contraction>(to.statement_at(products[0]).op));
  FusedMatmulLowering(to, group, products).lower_group();
}

}  // namespace ridge
