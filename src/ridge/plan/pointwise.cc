// Lowers pointwise statements to one chain that loads each tensor once per use and keeps every value in a register
// until its last use: y = (u + bu) * gelu(g + bg) needs three registers. A product without a sum is pointwise, too.
#include <algorithm>
#include <map>

#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

using ops::ChainOp;
using ops::ChainProgram;
using ops::ChainStep;

// Limits of CUDA chain kernels (ops/chain/cuda.cu).
constexpr std::size_t most_steps = 96, most_tensors = 20;
constexpr int most_registers = 24;

// Chains have only `less` and `less_equal`; the other two comparisons swap the operands.
ChainOp chain_op(Function function) {
  if (function == Function::greater) return ChainOp::less;
  return function == Function::greater_equal ? ChainOp::less_equal : function;
}

// Allocates registers; a register is free again after the last node that reads it.
class Registers {
 public:
  Registers(const std::vector<Node>& nodes, const std::vector<std::size_t>& members)
      : last_use_(nodes.size(), nodes.size()), held_(nodes.size(), -1) {
    for (const std::size_t i : members)
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
  void release_unread(std::size_t node) {  // frees a stored result that no node reads
    if (last_use_[node] == last_use_.size()) busy_[static_cast<std::size_t>(of(static_cast<int>(node)))] = false;
  }
  int count() const { return count_; }

 private:
  std::vector<std::size_t> last_use_;
  std::vector<int> held_;
  std::vector<bool> busy_;
  int count_ = 0;
};

class ChainLowering {
 public:
  ChainLowering(const std::vector<Node>& nodes, const std::vector<std::size_t>& members, const ChainLeaves& leaves)
      : nodes_(nodes), leaves_(leaves), registers_(nodes, members) {
    for (const SizedAxis& axis : leaves.space) out_.program.extents.push_back(axis.extent);
    for (const View& view : leaves.first) (void)slot(view);
  }

  LoweredChain lower(const std::vector<std::size_t>& members, const std::vector<ChainResult>& results) {
    for (const std::size_t i : members) {
      emit(i);
      bool stored = false;
      for (const ChainResult& result : results) {
        if (result.node != i) continue;
        out_.program.steps.push_back(
            {.op = ChainOp::store, .a = registers_.of(static_cast<int>(i)), .slot = slot(result.to)});
        stored = true;
      }
      if (stored) registers_.release_unread(i);
    }
    out_.program.registers = registers_.count();
    return std::move(out_);
  }

 private:
  void emit(std::size_t i) {
    const Node& node = nodes_[i];
    ChainStep step{};
    if (leaves_.views[i]) {
      step = {.op = ChainOp::load, .slot = slot(*leaves_.views[i])};
    } else {
      step = chain_step(node, leaves_.dims, [&](int argument) { return registers_.of(argument); });
      registers_.release(node, i);
    }
    step.result = registers_.take(i);
    out_.program.steps.push_back(step);
  }

  int slot(const View& view) {
    for (std::size_t i = 0; i < out_.buffers.size(); ++i)
      if (out_.buffers[i] == view.buffer) return static_cast<int>(i);
    out_.buffers.push_back(view.buffer);
    out_.program.tensors.push_back(chain_tensor(view, leaves_.space));
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  const std::vector<Node>& nodes_;
  const ChainLeaves& leaves_;
  Registers registers_;
  LoweredChain out_;
};

// Appends the nodes of statements to one list.
class Joiner {
 public:
  explicit Joiner(const std::vector<int>& stored) : stored_(stored) {}

  void add_sums(int tensor) {
    if (is_stored(tensor)) keep(leaf({.kind = Node::Kind::tensor, .tensor = tensor}), tensor);
  }
  void add(const Expression& e) {
    std::vector<int> place;  // index of each of its nodes in the full list
    for (Node node : e.nodes) {
      const auto made = node.kind == Node::Kind::tensor ? made_.find(node.tensor) : made_.end();
      if (made != made_.end()) {
        place.push_back(made->second);
        continue;
      }
      for (int& argument : node.arguments) argument = place[static_cast<std::size_t>(argument)];
      place.push_back(leaf(std::move(node)));
    }
    made_[e.result] = place.back();
    if (is_stored(e.result)) keep(place.back(), e.result);
  }
  Pointwise take() { return std::move(out_); }

 private:
  bool is_stored(int tensor) const { return std::find(stored_.begin(), stored_.end(), tensor) != stored_.end(); }
  int leaf(Node node) {
    out_.nodes.push_back(std::move(node));
    return static_cast<int>(out_.nodes.size()) - 1;
  }
  void keep(int node, int tensor) { out_.results.push_back({static_cast<std::size_t>(node), tensor}); }

  const std::vector<int>& stored_;
  std::map<int, int> made_;  // node that computes each tensor
  Pointwise out_;
};

std::vector<std::size_t> all_of(const std::vector<Node>& nodes) {
  std::vector<std::size_t> all(nodes.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

ops::ChainStep chain_step(const Node& node, const Bindings& sizes, const std::function<int(int)>& register_of) {
  if (node.kind != Node::Kind::call) {
    const double value = node.kind == Node::Kind::size ? static_cast<double>(sizes.at(node.over[0].dim)) : node.number;
    return {.op = ChainOp::constant, .constant = static_cast<float>(value)};
  }
  int in[3] = {0, 0, 0};
  for (std::size_t j = 0; j < node.arguments.size() && j < 3; ++j) in[j] = register_of(node.arguments[j]);
  if (node.function == Function::greater || node.function == Function::greater_equal) std::swap(in[0], in[1]);
  return {.op = chain_op(node.function), .a = in[0], .b = in[1], .c = in[2], .repeat = node.repeat};
}

Pointwise joined(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored,
                 bool sums_along) {
  Joiner joiner(stored);
  for (const int s : statements) {
    const Statement& statement = program.statements[static_cast<std::size_t>(s)];
    const auto* contraction = std::get_if<Contraction>(&statement.op);
    if (contraction && sums(*contraction) && !sums_along)
      joiner.add_sums(contraction->result);
    else
      joiner.add(contraction ? elementwise(*contraction) : std::get<Expression>(statement.op));
  }
  return joiner.take();
}

bool fits_device(const Pointwise& chain) {
  const std::vector<std::size_t> all = all_of(chain.nodes);
  std::vector<std::optional<View>> views;
  for (const Node& node : chain.nodes) {
    views.emplace_back();
    if (node.kind == Node::Kind::tensor) views.back() = View{node.tensor};
    if (is_place(node)) views.back() = View{-static_cast<int>(views.size())};  // a distinct buffer
  }
  std::vector<ChainResult> results;
  for (const Pointwise::Stored& stored : chain.results) results.push_back({stored.node, {stored.tensor}});
  Bindings dims;
  for (const Node& node : chain.nodes)
    if (node.kind == Node::Kind::size) dims[node.over[0].dim] = 1;
  const LoweredChain lowered = lower_chain(chain.nodes, all, results, {views, {}, {}, dims});
  return lowered.program.steps.size() <= most_steps && lowered.buffers.size() <= most_tensors &&
         lowered.program.registers <= most_registers;
}

LoweredChain lower_chain(const std::vector<Node>& nodes, const std::vector<std::size_t>& members,
                         const std::vector<ChainResult>& results, const ChainLeaves& leaves) {
  return ChainLowering(nodes, members, leaves).lower(members, results);
}

void lower_pointwise(Lowering& to, int group) {
  const Group& g = to.plan.fusion.groups[static_cast<std::size_t>(group)];
  const Pointwise chain = joined(to.program, g.statements, g.results);
  const auto views = leaves(to, chain.nodes);
  std::vector<ChainResult> results;
  for (const Pointwise::Stored& stored : chain.results) results.push_back({stored.node, to.view(stored.tensor)});
  const Shape& space = to.shape_of(to.statement(g.statements.back()).result());
  LoweredChain lowered = lower_chain(chain.nodes, all_of(chain.nodes), results, {views, {}, space, to.sizes});
  Step& step = to.plan.steps.emplace_back();
  step.group = group;
  step.kernel = std::move(lowered.program);
  step.buffers = std::move(lowered.buffers);
}

std::vector<std::optional<View>> leaves(Lowering& to, const std::vector<Node>& nodes) {
  std::vector<std::optional<View>> views;
  for (const Node& node : nodes) {
    views.emplace_back();
    if (node.kind == Node::Kind::tensor) views.back() = to.view(node.tensor);
    if (is_place(node)) views.back() = counting(to, node);
  }
  return views;
}

View counting(Lowering& to, const Node& place) {
  const Axis& axis = place.over.front();
  const std::int64_t extent = axis.named() ? to.dims.at(axis.dim) : axis.literal;
  std::vector<std::int64_t> lengths;
  if (place.kind == Node::Kind::sequence) lengths = lengths_along(to.program, axis.dim);
  for (const auto& [buffer, counted] : to.counted)
    if (counted == axis && to.plan.buffers[static_cast<std::size_t>(buffer)].lengths == lengths)
      return {buffer, DType::f32, {{axis.dim, extent, 1}}};
  const View counts{to.add_buffer(DType::f32, extent), DType::f32, {{axis.dim, extent, 1}}};
  Buffer& buffer = to.plan.buffers[static_cast<std::size_t>(counts.buffer)];
  buffer.counts = true;
  buffer.lengths = std::move(lengths);
  to.counted[counts.buffer] = axis;
  return counts;
}

ops::ChainTensor chain_tensor(const View& view, const Shape& space) {
  ops::ChainTensor out{view.dtype, {}};
  for (const SizedAxis& axis : space) {
    const SizedAxis mine = axis.dim.empty() ? SizedAxis{} : along(view.shape, axis.dim);
    out.strides.push_back(mine.extent == 1 ? 0 : mine.stride);
  }
  return out;
}

Step copy_step(int group, const View& from, const View& to, std::string what) {
  ops::ChainProgram chain;
  for (const SizedAxis& axis : to.shape) chain.extents.push_back(axis.extent);
  chain.tensors = {chain_tensor(from, to.shape), chain_tensor(to, to.shape)};
  chain.steps = {{.op = ChainOp::load, .slot = 0}, {.op = ChainOp::store, .slot = 1}};
  chain.registers = 1;
  return {group, chain, {from.buffer, to.buffer}, std::move(what)};
}

}  // namespace ridge
