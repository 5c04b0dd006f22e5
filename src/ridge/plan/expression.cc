// A pointwise statement as one chain: each tensor loaded once a use, every value in a register until its last use, one
// store. y = (u + bu) * gelu(g + bg) needs three registers. Functions along dimensions run on rows or reduce, with what
// stands inside them before and what stands around them after; y = rmsnorm(x over D) * w and p = softmax(s over T) are
// one kernel each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/plan/lower.h"

namespace ridge {
namespace {

using kernels::ChainOp;
using kernels::ChainProgram;
using kernels::ChainStep;

ChainOp chain_op(Function function) {
  switch (function) {
    case Function::add: return ChainOp::add;
    case Function::subtract: return ChainOp::subtract;
    case Function::multiply: return ChainOp::multiply;
    case Function::divide: return ChainOp::divide;
    case Function::negate: return ChainOp::negate;
    case Function::exp: return ChainOp::exp;
    case Function::log: return ChainOp::log;
    case Function::cos: return ChainOp::cos;
    case Function::sin: return ChainOp::sin;
    case Function::gelu: return ChainOp::gelu;
    case Function::gelu_tanh: return ChainOp::gelu_tanh;
    case Function::silu: return ChainOp::silu;
    case Function::relu: return ChainOp::relu;
    case Function::sigmoid: return ChainOp::sigmoid;
    case Function::tanh: return ChainOp::tanh;
    case Function::sqrt: return ChainOp::sqrt;
    case Function::rsqrt: return ChainOp::rsqrt;
    case Function::abs: return ChainOp::abs;
    case Function::max: return ChainOp::max;
    case Function::min: return ChainOp::min;
    case Function::where: return ChainOp::where;
    case Function::less:
    case Function::greater: return ChainOp::less;
    case Function::less_equal:
    case Function::greater_equal: return ChainOp::less_equal;
    case Function::equal: return ChainOp::equal;
    case Function::sum:
    case Function::mean:
    case Function::softmax:
    case Function::rmsnorm:
    case Function::layernorm: break;  // no operations of one element
  }
  return ChainOp::add;
}

// Hands out registers; one is free again after the last node that reads it.
class Registers {
 public:
  explicit Registers(const std::vector<Node>& nodes) : last_use_(nodes.size(), nodes.size()), held_(nodes.size(), -1) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (const int argument : nodes[i].arguments) last_use_[static_cast<std::size_t>(argument)] = i;
  }
  int of(int node) const { return held_[static_cast<std::size_t>(node)]; }
  int take(std::size_t node) {
    int place = 0;
    while (place < count_ && busy_[static_cast<std::size_t>(place)]) ++place;
    if (place == count_) {
      ++count_;
      busy_.push_back(true);
    }
    busy_[static_cast<std::size_t>(place)] = true;
    return held_[node] = place;
  }
  void release(const Node& node, std::size_t at) {
    for (const int argument : node.arguments)
      if (last_use_[static_cast<std::size_t>(argument)] == at) busy_[static_cast<std::size_t>(of(argument))] = false;
  }
  int count() const { return count_; }

 private:
  std::vector<std::size_t> last_use_;
  std::vector<int> held_;
  std::vector<bool> busy_;
  int count_ = 0;
};

// Nodes of one space as a chain. `views` are where its leaves lie: tensors, indices, and what was computed below.
class Chain {
 public:
  Chain(const std::vector<Node>& nodes, const std::vector<std::optional<View>>& views, const View& out)
      : nodes_(nodes), views_(views), out_(out), registers_(nodes) {}

  Step lower(int statement, const std::vector<std::size_t>& members, const Bindings& dims) {
    for (const SizedAxis& axis : out_.shape) chain_.extents.push_back(axis.extent);
    for (const std::size_t i : members) emit(i, dims);
    const int value = registers_.of(static_cast<int>(members.back()));
    chain_.steps.push_back({.op = ChainOp::store, .a = value, .slot = slot(out_)});
    chain_.registers = registers_.count();
    return {statement, chain_, buffers_, ""};
  }

 private:
  void emit(std::size_t i, const Bindings& dims) {
    const Node& node = nodes_[i];
    ChainStep step{};
    if (views_[i]) {
      step = {.op = ChainOp::load, .slot = slot(*views_[i])};
    } else if (node.kind != Node::Kind::call) {
      const double value = node.kind == Node::Kind::size ? static_cast<double>(dims.at(node.over[0].dim)) : node.number;
      step = {.op = ChainOp::constant, .constant = static_cast<float>(value)};
    } else {
      int in[3] = {0, 0, 0};
      for (std::size_t j = 0; j < node.arguments.size() && j < 3; ++j) in[j] = registers_.of(node.arguments[j]);
      if (node.function == Function::greater || node.function == Function::greater_equal) std::swap(in[0], in[1]);
      step = {.op = chain_op(node.function), .a = in[0], .b = in[1], .c = in[2], .repeat = node.repeat};
      registers_.release(node, i);
    }
    step.result = registers_.take(i);
    chain_.steps.push_back(step);
  }

  int slot(const View& view) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] == view.buffer) return static_cast<int>(i);
    buffers_.push_back(view.buffer);
    chain_.tensors.push_back(chain_tensor(view, out_.shape));
    return static_cast<int>(buffers_.size()) - 1;
  }

  const std::vector<Node>& nodes_;
  const std::vector<std::optional<View>>& views_;
  const View& out_;
  Registers registers_;
  ChainProgram chain_;
  std::vector<int> buffers_;
};

// An expression, from its inner spaces outwards: what a function runs along is computed into a buffer of its own,
// unless it is a tensor, then the function, then what stands around it as one chain.
class Lowerer {
 public:
  Lowerer(Lowering& to, int statement, const Expression& e)
      : to_(to), statement_(statement), nodes_(e.nodes), spaces_(spaces(to.program.tensors, e.nodes)) {
    members_.resize(spaces_.axes.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) members_[static_cast<std::size_t>(spaces_.of[i])].push_back(i);
    views_.resize(nodes_.size());
  }

  void lower(int result) {
    const View out{result, to_.dtype_of(result), to_.shape_of(result)};
    const std::size_t root = nodes_.size() - 1;
    if (nodes_[root].kind == Node::Kind::along && nodes_[root].function != Function::layernorm)
      along(root, out);
    else if (!weighted(out))
      chain(0, out);
  }

 private:
  std::vector<std::string> keys(const std::vector<Axis>& axes) const {
    std::vector<std::string> out;
    for (const Axis& axis : axes) {
      std::string key = axis.named() ? axis.dim : axis.literal > 1 ? std::to_string(axis.literal) : "";
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

  // A space's value, where it lies or in a new buffer.
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
    to_.plan.steps.push_back(Chain(nodes_, views_, out).lower(statement_, members, to_.dims));
  }

  std::optional<View> leaf(std::size_t i) {
    const Node& node = nodes_[i];
    if (node.kind == Node::Kind::tensor) return View{node.tensor, to_.dtype_of(node.tensor), to_.shape_of(node.tensor)};
    if (node.kind == Node::Kind::along) return along(i, std::nullopt);
    if (node.kind != Node::Kind::index) return std::nullopt;
    const View counts = buffer({{node.over[0].dim, extent(node.over[0]), 0}});
    to_.plan.buffers[static_cast<std::size_t>(counts.buffer)].counts = true;
    return counts;
  }

  int below(std::size_t i) const { return spaces_.of[static_cast<std::size_t>(nodes_[i].arguments[0])]; }

  // A function along dimensions, into `out` or a new buffer.
  View along(std::size_t i, const std::optional<View>& out) {
    const Node& node = nodes_[i];
    const View x = value(below(i));
    const std::vector<std::string> over = keys(node.over);
    switch (node.function) {
      case Function::softmax: return rows(kernels::RowFunction::softmax, x, over, std::nullopt, out);
      case Function::rmsnorm: return rows(kernels::RowFunction::rmsnorm, x, over, std::nullopt, out);
      case Function::layernorm: {
        const View mean = reduce(kernels::ReduceFunction::mean, x, over, std::nullopt);
        return rows(kernels::RowFunction::rmsnorm, difference(x, mean), over, std::nullopt, out);
      }
      case Function::mean: return reduce(kernels::ReduceFunction::mean, x, over, out);
      case Function::max: return reduce(kernels::ReduceFunction::max, x, over, out);
      case Function::min: return reduce(kernels::ReduceFunction::min, x, over, out);
      default: return reduce(kernels::ReduceFunction::sum, x, over, out);
    }
  }

  View reduce(kernels::ReduceFunction function, const View& x, const std::vector<std::string>& over,
              const std::optional<View>& out) {
    Shape kept;
    kernels::ReduceProblem problem{.function = function, .x = x.dtype, .y = DType::f32, .kept = {}, .reduced = {}};
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
    to_.plan.steps.push_back({statement_, problem, {x.buffer, y.buffer}, ""});
    return y;
  }

  View difference(const View& x, const View& mean) {
    const View out = buffer(x.shape);
    ChainProgram chain;
    for (const SizedAxis& axis : out.shape) chain.extents.push_back(axis.extent);
    chain.tensors = {chain_tensor(x, out.shape), chain_tensor(mean, out.shape), chain_tensor(out, out.shape)};
    chain.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
                   {.op = ChainOp::load, .result = 1, .slot = 1},
                   {.op = ChainOp::subtract, .result = 0, .a = 0, .b = 1},
                   {.op = ChainOp::store, .a = 0, .slot = 2}};
    chain.registers = 2;
    to_.plan.steps.push_back({statement_, chain, {x.buffer, mean.buffer, out.buffer}, ""});
    return out;
  }

  struct Matrix {  // rows along `kept`, each of them along `over`
    std::vector<std::string> kept, over;
  };
  static std::optional<std::int64_t> row_stride(const View& view, const Matrix& m) {
    const auto across = merged_stride(view.shape, m.over), down = merged_stride(view.shape, m.kept);
    return across && *across <= 1 && *across >= 0 ? down : std::nullopt;
  }

  // Rows must lie so that one stride leads from each to the next; what does not is copied first.
  View rows(kernels::RowFunction function, View x, const std::vector<std::string>& over,
            const std::optional<View>& weight, const std::optional<View>& out) {
    Matrix m;
    kernels::RowProblem problem{.function = function, .rows = 1, .columns = 1, .x = {}, .y = {}};
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
      to_.plan.steps.push_back(
          copy_step(statement_, x, copy,
                    fmt::format("what runs along {} to {} order", fmt::join(m.over, ", "), text(copy.shape))));
      x = copy;
    }
    const View y = out && row_stride(*out, m) ? *out : buffer(packed(x.shape, order));
    problem.x = {x.dtype, *row_stride(x, m)};
    problem.y = {y.dtype, *row_stride(y, m)};
    if (weight) problem.weight = weight->dtype;
    to_.plan.steps.push_back({statement_, problem, {x.buffer, weight ? weight->buffer : -1, y.buffer}, ""});
    if (out && y.buffer != out->buffer)
      to_.plan.steps.push_back(
          copy_step(statement_, y, *out, fmt::format("{} to {} order", text(y.shape), text(out->shape))));
    return out ? *out : y;
  }

  // rmsnorm(x over D) * w with w[D]: one kernel.
  bool weighted(const View& out) {
    const Node& root = nodes_.back();
    if (root.kind != Node::Kind::call || root.function != Function::multiply) return false;
    for (const int turn : {0, 1}) {
      const auto norm = static_cast<std::size_t>(root.arguments[static_cast<std::size_t>(turn)]);
      const Node& other = nodes_[static_cast<std::size_t>(root.arguments[static_cast<std::size_t>(1 - turn)])];
      if (nodes_[norm].kind != Node::Kind::along || nodes_[norm].function != Function::rmsnorm ||
          other.kind != Node::Kind::tensor)
        continue;
      const std::vector<std::string> over = keys(nodes_[norm].over);
      const View w{other.tensor, to_.dtype_of(other.tensor), to_.shape_of(other.tensor)};
      if (over.size() != 1 || w.shape.size() != 1 || w.shape[0].dim != over[0]) return false;
      rows(kernels::RowFunction::rmsnorm, value(below(norm)), over, w, out);
      return true;
    }
    return false;
  }

  Lowering& to_;
  int statement_;
  const std::vector<Node>& nodes_;
  Spaces spaces_;
  std::vector<std::vector<std::size_t>> members_;
  std::vector<std::optional<View>> views_;
};

}  // namespace

kernels::ChainTensor chain_tensor(const View& view, const Shape& space) {
  kernels::ChainTensor out{view.dtype, {}};
  for (const SizedAxis& axis : space) {
    const SizedAxis mine = axis.dim.empty() ? SizedAxis{} : along(view.shape, axis.dim);
    out.strides.push_back(mine.extent == 1 ? 0 : mine.stride);
  }
  return out;
}

Step copy_step(int statement, const View& from, const View& to, std::string what) {
  kernels::ChainProgram chain;
  for (const SizedAxis& axis : to.shape) chain.extents.push_back(axis.extent);
  chain.tensors = {chain_tensor(from, to.shape), chain_tensor(to, to.shape)};
  chain.steps = {{.op = ChainOp::load, .slot = 0}, {.op = ChainOp::store, .slot = 1}};
  chain.registers = 1;
  return {statement, chain, {from.buffer, to.buffer}, std::move(what)};
}

void lower(Lowering& to, int statement, const Expression& e) { Lowerer(to, statement, e).lower(e.result); }

}  // namespace ridge
