// Lowers a statement with functions along dimensions to row or reduction kernels. A chain before each computes its
// argument, and a chain after it the surrounding operations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/plan/lower.h"

namespace ridge {
namespace {

// Lowers an expression from its innermost index spaces outwards: first the argument of a function along dimensions,
// into a new buffer unless it is a tensor; then the function; then the surrounding operations as one chain.
class ExpressionLowering {
 public:
  ExpressionLowering(Lowering& to, int group, const Expression& e)
      : to_(to), group_(group), nodes_(e.nodes), spaces_(find_index_spaces(to.program.tensors, e.nodes)) {
    members_.resize(spaces_.axes.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) members_[spaces_.space_of_node[i]].push_back(i);
    views_.resize(nodes_.size());
  }

  void lower_root(int result) {
    const View& out = to_.view_of(result);
    const std::size_t root = nodes_.size() - 1;
    if (nodes_[root].kind == Node::Kind::along_dims)
      lower_function(root, out);
    else
      add_chain(0, out);
  }

 private:
  std::vector<std::string> axis_keys(const std::vector<Axis>& axes) const {
    std::vector<std::string> out;
    for (const Axis& axis : axes) {
      std::string key = axis_key(axis);
      if (!key.empty()) out.push_back(std::move(key));
    }
    return out;
  }
  std::int64_t extent_of(const Axis& axis) const { return axis.is_named() ? to_.dims.at(axis.dim) : axis.literal; }

  View add_buffer(Shape shape) {
    std::vector<std::string> order;
    for (const SizedAxis& axis : shape)
      if (!axis.dim.empty()) order.push_back(axis.dim);
    shape = contiguous_shape(shape, order);
    return {to_.add_buffer(DType::f32, count_elements(shape)), DType::f32, shape};
  }

  // Returns the view of an index space's value: the tensor, or a new buffer with the computed value.
  View materialize_space(int space) {
    const std::vector<std::size_t>& members = members_[space];
    if (members.size() == 1) return *leaf_view(members[0]);
    Shape shape;
    for (const Axis& axis : spaces_.axes[space]) shape.push_back({axis_keys({axis})[0], extent_of(axis), 0});
    const View out = add_buffer(shape);
    add_chain(space, out);
    return out;
  }

  void add_chain(int space, const View& out) {
    const std::vector<std::size_t>& members = members_[space];
    for (const std::size_t i : members) views_[i] = leaf_view(i);
    LoweredChain lowered = lower_chain(nodes_, members, {{members.back(), out}}, {views_, {}, out.shape, to_.sizes});
    to_.plan.steps.push_back({group_, std::move(lowered.program), std::move(lowered.buffers), ""});
  }

  std::optional<View> leaf_view(std::size_t i) {
    const Node& node = nodes_[i];
    if (node.kind == Node::Kind::tensor) return to_.view_of(node.tensor);
    if (node.kind == Node::Kind::along_dims) return lower_function(i, std::nullopt);
    if (is_position(node)) return make_index_view(to_, node);
    return std::nullopt;
  }

  int argument_space(std::size_t i) const { return spaces_.space_of_node[nodes_[i].arguments[0]]; }

  // Adds the steps of a function along dimensions, which writes `out` or a new buffer. Returns the view of the result.
  View lower_function(std::size_t i, const std::optional<View>& out) {
    const Node& node = nodes_[i];
    const View x = materialize_space(argument_space(i));
    const std::vector<std::string> over = axis_keys(node.over);
    switch (node.function) {
      case Function::softmax: return add_row_function(ops::RowFunction::softmax, x, over, out);
      case Function::rmsnorm: return add_row_function(ops::RowFunction::rmsnorm, x, over, out);
      case Function::layernorm: return add_row_function(ops::RowFunction::layernorm, x, over, out);
      case Function::mean: return add_reduction(ops::ReduceFunction::mean, x, over, out);
      case Function::max: return add_reduction(ops::ReduceFunction::max, x, over, out);
      case Function::min: return add_reduction(ops::ReduceFunction::min, x, over, out);
      default: return add_reduction(ops::ReduceFunction::sum, x, over, out);
    }
  }

  View add_reduction(ops::ReduceFunction function, const View& x, const std::vector<std::string>& over,
                     const std::optional<View>& out) {
    Shape kept;
    ops::ReduceProblem problem{.function = function, .x = x.dtype, .y = DType::f32, .kept = {}, .reduced = {}};
    for (const SizedAxis& axis : x.shape) {
      if (axis.dim.empty()) continue;
      const bool is_reduced = contains(over, axis.dim);
      if (!is_reduced) kept.push_back(axis);
      if (is_reduced) problem.reduced.push_back({axis.extent, axis.stride, 0});
    }
    const View y = out ? *out : add_buffer(kept);
    problem.y = y.dtype;
    for (const SizedAxis& axis : kept)
      problem.kept.push_back({axis.extent, axis.stride, ridge::axis_along(y.shape, axis.dim).stride});
    to_.plan.steps.push_back({group_, problem, {x.buffer, y.buffer}, ""});
    return y;
  }

  struct RowSplit {  // row dimensions `kept` and column dimensions `over`
    std::vector<std::string> kept, over;
  };
  static std::optional<std::int64_t> row_stride(const View& view, const RowSplit& m) {
    const auto column_stride = merged_stride(view.shape, m.over),
               stride_between_rows = merged_stride(view.shape, m.kept);
    return column_stride && *column_stride <= 1 && *column_stride >= 0 ? stride_between_rows : std::nullopt;
  }

  // Adds a row function. Rows need contiguous columns and one stride between rows; other operands are copied first.
  View add_row_function(ops::RowFunction function, View x, const std::vector<std::string>& over,
                        const std::optional<View>& out) {
    RowSplit m;
    ops::RowProblem problem{.function = function, .rows = 1, .columns = 1, .x = {}, .y = {}};
    for (const SizedAxis& axis : x.shape) {
      if (axis.dim.empty()) continue;
      const bool column = contains(over, axis.dim);
      (column ? m.over : m.kept).push_back(axis.dim);
      (column ? problem.columns : problem.rows) *= axis.extent;
    }
    std::vector<std::string> order = m.kept;
    order.insert(order.end(), m.over.begin(), m.over.end());
    if (!row_stride(x, m)) {
      const View copy = add_buffer(contiguous_shape(x.shape, order));
      to_.plan.steps.push_back(make_copy_step(
          group_, x, copy,
          fmt::format("argument along {} to {} order", fmt::join(m.over, ", "), format_shape(copy.shape))));
      x = copy;
    }
    const View y = out && row_stride(*out, m) ? *out : add_buffer(contiguous_shape(x.shape, order));
    problem.x = {x.dtype, *row_stride(x, m)};
    problem.y = {y.dtype, *row_stride(y, m)};
    to_.plan.steps.push_back({group_, problem, {x.buffer, -1, y.buffer}, ""});
    if (out && y.buffer != out->buffer)
      to_.plan.steps.push_back(make_copy_step(
          group_, y, *out, fmt::format("{} to {} order", format_shape(y.shape), format_shape(out->shape))));
    return out ? *out : y;
  }

  Lowering& to_;
  int group_;
  const std::vector<Node>& nodes_;
  IndexSpaces spaces_;
  std::vector<std::vector<std::size_t>> members_;
  std::vector<std::optional<View>> views_;
};

}  // namespace

void lower_expression(Lowering& to, int group, const Expression& e) {
  ExpressionLowering(to, group, e).lower_root(e.result);
}

}  // namespace ridge
