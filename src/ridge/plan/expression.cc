// Lowers a statement with functions along dimensions to row or reduction kernels. A chain before each computes its
// argument, and a chain after it the surrounding operations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/plan/lower.h"

namespace ridge {
namespace {

// Lowers an expression from its innermost index spaces outwards: first the argument of a function along dimensions,
// into a new buffer unless it is a tensor; then the function; then the surrounding operations as one chain.
class Lowerer {
 public:
  Lowerer(Lowering& to, int group, const Expression& e)
      : to_(to), group_(group), nodes_(e.nodes), spaces_(spaces(to.program.tensors, e.nodes)) {
    members_.resize(spaces_.axes.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) members_[static_cast<std::size_t>(spaces_.of[i])].push_back(i);
    views_.resize(nodes_.size());
  }

  void lower(int result) {
    const View& out = to_.view(result);
    const std::size_t root = nodes_.size() - 1;
    if (nodes_[root].kind == Node::Kind::along)
      along(root, out);
    else
      chain(0, out);
  }

 private:
  std::vector<std::string> keys(const std::vector<Axis>& axes) const {
    std::vector<std::string> out;
    for (const Axis& axis : axes) {
      std::string key = shape_key(axis);
      if (!key.empty()) out.push_back(std::move(key));
    }
    return out;
  }
  std::int64_t extent(const Axis& axis) const { return axis.named() ? to_.dims.at(axis.dim) : axis.literal; }

  View buffer(Shape shape) {
    std::vector<std::string> order;
    for (const SizedAxis& axis : shape)
      if (!axis.dim.empty()) order.push_back(axis.dim);
    shape = packed(shape, order);
    return {to_.add_buffer(DType::f32, elements(shape)), DType::f32, shape};
  }

  // Returns a view of a space's value, computed into a new buffer unless it is a tensor.
  View value(int space) {
    const std::vector<std::size_t>& members = members_[static_cast<std::size_t>(space)];
    if (members.size() == 1) return *leaf(members[0]);
    Shape shape;
    for (const Axis& axis : spaces_.axes[static_cast<std::size_t>(space)])
      shape.push_back({keys({axis})[0], extent(axis), 0});
    const View out = buffer(shape);
    chain(space, out);
    return out;
  }

  void chain(int space, const View& out) {
    const std::vector<std::size_t>& members = members_[static_cast<std::size_t>(space)];
    for (const std::size_t i : members) views_[i] = leaf(i);
    LoweredChain lowered = lower_chain(nodes_, members, {{members.back(), out}}, {views_, {}, out.shape, to_.sizes});
    to_.plan.steps.push_back({group_, std::move(lowered.program), std::move(lowered.buffers), ""});
  }

  std::optional<View> leaf(std::size_t i) {
    const Node& node = nodes_[i];
    if (node.kind == Node::Kind::tensor) return to_.view(node.tensor);
    if (node.kind == Node::Kind::along) return along(i, std::nullopt);
    if (is_place(node)) return counting(to_, node);
    return std::nullopt;
  }

  int below(std::size_t i) const { return spaces_.of[static_cast<std::size_t>(nodes_[i].arguments[0])]; }

  // Adds a function along dimensions that writes `out` or a new buffer.
  View along(std::size_t i, const std::optional<View>& out) {
    const Node& node = nodes_[i];
    const View x = value(below(i));
    const std::vector<std::string> over = keys(node.over);
    switch (node.function) {
      case Function::softmax: return rows(ops::RowFunction::softmax, x, over, out);
      case Function::rmsnorm: return rows(ops::RowFunction::rmsnorm, x, over, out);
      case Function::layernorm: return rows(ops::RowFunction::layernorm, x, over, out);
      case Function::mean: return reduce(ops::ReduceFunction::mean, x, over, out);
      case Function::max: return reduce(ops::ReduceFunction::max, x, over, out);
      case Function::min: return reduce(ops::ReduceFunction::min, x, over, out);
      default: return reduce(ops::ReduceFunction::sum, x, over, out);
    }
  }

  View reduce(ops::ReduceFunction function, const View& x, const std::vector<std::string>& over,
              const std::optional<View>& out) {
    Shape kept;
    ops::ReduceProblem problem{.function = function, .x = x.dtype, .y = DType::f32, .kept = {}, .reduced = {}};
    for (const SizedAxis& axis : x.shape) {
      if (axis.dim.empty()) continue;
      const bool gone = std::find(over.begin(), over.end(), axis.dim) != over.end();
      if (!gone) kept.push_back(axis);
      if (gone) problem.reduced.push_back({axis.extent, axis.stride, 0});
    }
    const View y = out ? *out : buffer(kept);
    problem.y = y.dtype;
    for (const SizedAxis& axis : kept)
      problem.kept.push_back({axis.extent, axis.stride, ridge::along(y.shape, axis.dim).stride});
    to_.plan.steps.push_back({group_, problem, {x.buffer, y.buffer}, ""});
    return y;
  }

  struct Matrix {  // row dimensions `kept` and column dimensions `over`
    std::vector<std::string> kept, over;
  };
  static std::optional<std::int64_t> row_stride(const View& view, const Matrix& m) {
    const auto across = merged_stride(view.shape, m.over), down = merged_stride(view.shape, m.kept);
    return across && *across <= 1 && *across >= 0 ? down : std::nullopt;
  }

  // Adds a row function. Rows need contiguous columns and one stride between rows; other operands are copied first.
  View rows(ops::RowFunction function, View x, const std::vector<std::string>& over, const std::optional<View>& out) {
    Matrix m;
    ops::RowProblem problem{.function = function, .rows = 1, .columns = 1, .x = {}, .y = {}};
    for (const SizedAxis& axis : x.shape) {
      if (axis.dim.empty()) continue;
      const bool column = std::find(over.begin(), over.end(), axis.dim) != over.end();
      (column ? m.over : m.kept).push_back(axis.dim);
      (column ? problem.columns : problem.rows) *= axis.extent;
    }
    std::vector<std::string> order = m.kept;
    order.insert(order.end(), m.over.begin(), m.over.end());
    if (!row_stride(x, m)) {
      const View copy = buffer(packed(x.shape, order));
      to_.plan.steps.push_back(copy_step(
          group_, x, copy, fmt::format("argument along {} to {} order", fmt::join(m.over, ", "), text(copy.shape))));
      x = copy;
    }
    const View y = out && row_stride(*out, m) ? *out : buffer(packed(x.shape, order));
    problem.x = {x.dtype, *row_stride(x, m)};
    problem.y = {y.dtype, *row_stride(y, m)};
    to_.plan.steps.push_back({group_, problem, {x.buffer, -1, y.buffer}, ""});
    if (out && y.buffer != out->buffer)
      to_.plan.steps.push_back(
          copy_step(group_, y, *out, fmt::format("{} to {} order", text(y.shape), text(out->shape))));
    return out ? *out : y;
  }

  Lowering& to_;
  int group_;
  const std::vector<Node>& nodes_;
  Spaces spaces_;
  std::vector<std::vector<std::size_t>> members_;
  std::vector<std::optional<View>> views_;
};

}  // namespace

void lower(Lowering& to, int group, const Expression& e) { Lowerer(to, group, e).lower(e.result); }

}  // namespace ridge
