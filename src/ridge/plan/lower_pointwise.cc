// Lowers pointwise statements to one chain that loads each tensor once per use and keeps every value in a register
// until its last use: y = (u + bu) * gelu(g + bg) needs three registers. A product without a sum is pointwise, too.
#include <algorithm>
#include <map>

#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

using ops::ChainOp;
using ops::ChainProgram;
using ops::ChainStep;

// Limits of CUDA chain kernels, whose values are in registers and whose arguments take at most 4 KiB.
constexpr std::size_t max_chain_steps = 96, max_chain_tensors = 20;
constexpr int max_chain_registers = 24;

// Chains have only `less` and `less_equal`; the other two comparisons swap the operands.
ChainOp chain_op(Function function) {
  if (function == Function::greater) return ChainOp::less;
  return function == Function::greater_equal ? ChainOp::less_equal : function;
}

// Allocates registers; a register is free again after the last node that reads it.
class RegisterAllocator {
 public:
  RegisterAllocator(const std::vector<Node>& nodes, const std::vector<std::size_t>& members)
      : last_use_(nodes.size(), nodes.size()), register_of_node_(nodes.size(), -1) {
    for (const std::size_t i : members)
      for (const int argument : nodes[i].arguments) last_use_[argument] = i;
  }
  int register_of(int node) const { return register_of_node_[node]; }
  int allocate_register(std::size_t node) {
    int index = 0;
    while (index < count_ && busy_[index]) ++index;
    if (index == count_) {
      ++count_;
      busy_.push_back(true);
    }
    busy_[index] = true;
    return register_of_node_[node] = index;
  }
  void release_arguments(const Node& node, std::size_t at) {
    for (const int argument : node.arguments)
      if (last_use_[argument] == at) busy_[register_of(argument)] = false;
  }
  void release_unread(std::size_t node) {  // frees a stored result that no node reads
    if (last_use_[node] == last_use_.size()) busy_[register_of(static_cast<int>(node))] = false;
  }
  int register_count() const { return count_; }

 private:
  std::vector<std::size_t> last_use_;
  std::vector<int> register_of_node_;
  std::vector<bool> busy_;
  int count_ = 0;
};

class ChainLowering {
 public:
  ChainLowering(const std::vector<Node>& nodes, const std::vector<std::size_t>& members, const ChainInputs& inputs)
      : nodes_(nodes), inputs_(inputs), registers_(nodes, members) {
    for (const SizedAxis& axis : inputs.space) out_.program.extents.push_back(axis.extent);
    for (const View& view : inputs.leading_tensors) (void)slot_of(view);
  }

  LoweredChain lower_members(const std::vector<std::size_t>& members, const std::vector<ChainResult>& results) {
    for (const std::size_t i : members) {
      emit_step(i);
      bool stored = false;
      for (const ChainResult& result : results) {
        if (result.node != i) continue;
        out_.program.steps.push_back({.op = ChainOp::store,
                                      .a = registers_.register_of(static_cast<int>(i)),
                                      .slot = slot_of(result.destination)});
        stored = true;
      }
      if (stored) registers_.release_unread(i);
    }
    out_.program.registers = registers_.register_count();
    return std::move(out_);
  }

 private:
  void emit_step(std::size_t i) {
    const Node& node = nodes_[i];
    ChainStep step{};
    if (inputs_.views[i]) {
      step = {.op = ChainOp::load, .slot = slot_of(*inputs_.views[i])};
    } else {
      step = make_chain_step(node, inputs_.dims, [&](int argument) { return registers_.register_of(argument); });
      registers_.release_arguments(node, i);
    }
    step.result = registers_.allocate_register(i);
    out_.program.steps.push_back(step);
  }

  int slot_of(const View& view) {
    for (std::size_t i = 0; i < out_.buffers.size(); ++i)
      if (out_.buffers[i] == view.buffer) return static_cast<int>(i);
    out_.buffers.push_back(view.buffer);
    out_.program.tensors.push_back(make_chain_tensor(view, inputs_.space));
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  const std::vector<Node>& nodes_;
  const ChainInputs& inputs_;
  RegisterAllocator registers_;
  LoweredChain out_;
};

// Appends the nodes of statements to one list.
class StatementJoiner {
 public:
  explicit StatementJoiner(const std::vector<int>& stored) : stored_(stored) {}

  void add_sums(int tensor) {
    if (is_stored(tensor)) store_node(append_node({.kind = Node::Kind::tensor, .tensor = tensor}), tensor);
  }
  void add_expression(const Expression& e) {
    std::vector<int> node_index;  // index of each of its nodes in the full list
    for (Node node : e.nodes) {
      const auto made = node.kind == Node::Kind::tensor ? producer_node_.find(node.tensor) : producer_node_.end();
      if (made != producer_node_.end()) {
        node_index.push_back(made->second);
        continue;
      }
      for (int& argument : node.arguments) argument = node_index[argument];
      node_index.push_back(append_node(std::move(node)));
    }
    producer_node_[e.result] = node_index.back();
    if (is_stored(e.result)) store_node(node_index.back(), e.result);
  }
  JoinedNodes release_nodes() { return std::move(out_); }

 private:
  bool is_stored(int tensor) const { return contains(stored_, tensor); }
  int append_node(Node node) {
    out_.nodes.push_back(std::move(node));
    return static_cast<int>(out_.nodes.size()) - 1;
  }
  void store_node(int node, int tensor) { out_.results.push_back({static_cast<std::size_t>(node), tensor}); }

  const std::vector<int>& stored_;
  std::map<int, int> producer_node_;  // node that computes each tensor
  JoinedNodes out_;
};

std::vector<std::size_t> all_indices(const std::vector<Node>& nodes) {
  std::vector<std::size_t> all(nodes.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

ops::ChainStep make_chain_step(const Node& node, const Bindings& sizes, const std::function<int(int)>& register_of) {
  if (node.kind != Node::Kind::call) {
    const double value = node.kind == Node::Kind::size ? static_cast<double>(sizes.at(node.over[0].dim)) : node.number;
    return {.op = ChainOp::constant, .constant = static_cast<float>(value)};
  }
  int in[3] = {0, 0, 0};
  for (std::size_t j = 0; j < node.arguments.size() && j < 3; ++j) in[j] = register_of(node.arguments[j]);
  if (node.function == Function::greater || node.function == Function::greater_equal) std::swap(in[0], in[1]);
  return {.op = chain_op(node.function), .a = in[0], .b = in[1], .c = in[2], .repeat = node.repeat};
}

JoinedNodes join_statements(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored,
                            bool sums_along) {
  StatementJoiner joiner(stored);
  for (const int s : statements) {
    const Statement& statement = program.statements[s];
    const auto* contraction = std::get_if<Contraction>(&statement.op);
    if ((contraction && has_sum(*contraction) && !sums_along) || routine_of(statement) != nullptr)
      joiner.add_sums(statement.result());
    else
      joiner.add_expression(contraction ? expression_of_contraction(*contraction) : std::get<Expression>(statement.op));
  }
  return joiner.release_nodes();
}

bool fits_device_chain(const JoinedNodes& chain) {
  const std::vector<std::size_t> all = all_indices(chain.nodes);
  std::vector<std::optional<View>> views;
  for (const Node& node : chain.nodes) {
    views.emplace_back();
    if (node.kind == Node::Kind::tensor) views.back() = View{node.tensor};
    if (is_position(node)) views.back() = View{-static_cast<int>(views.size())};  // a distinct buffer
  }
  std::vector<ChainResult> results;
  for (const JoinedNodes::StoredNode& stored : chain.results) results.push_back({stored.node, {stored.tensor}});
  Bindings dims;
  for (const Node& node : chain.nodes)
    if (node.kind == Node::Kind::size) dims[node.over[0].dim] = 1;
  const LoweredChain lowered = lower_chain(chain.nodes, all, results, {views, {}, {}, dims});
  return lowered.program.steps.size() <= max_chain_steps && lowered.buffers.size() <= max_chain_tensors &&
         lowered.program.registers <= max_chain_registers;
}

LoweredChain lower_chain(const std::vector<Node>& nodes, const std::vector<std::size_t>& members,
                         const std::vector<ChainResult>& results, const ChainInputs& inputs) {
  return ChainLowering(nodes, members, inputs).lower_members(members, results);
}

void lower_pointwise(Lowering& to, int group) {
  const FusionGroup& g = to.plan.fusion.groups[group];
  const JoinedNodes chain = join_statements(to.program, g.statements, g.results);
  const auto views = find_leaf_views(to, chain.nodes);
  std::vector<ChainResult> results;
  for (const JoinedNodes::StoredNode& stored : chain.results)
    results.push_back({stored.node, to.view_of(stored.tensor)});
  const Shape& space = to.shape_of(to.statement_at(g.statements.back()).result());
  LoweredChain lowered = lower_chain(chain.nodes, all_indices(chain.nodes), results, {views, {}, space, to.sizes});
  PlanStep& step = to.plan.steps.emplace_back();
  step.group = group;
  step.kernel = std::move(lowered.program);
  step.buffers = std::move(lowered.buffers);
}

std::vector<std::optional<View>> find_leaf_views(Lowering& to, const std::vector<Node>& nodes) {
  std::vector<std::optional<View>> views;
  for (const Node& node : nodes) {
    views.emplace_back();
    if (node.kind == Node::Kind::tensor) views.back() = to.view_of(node.tensor);
    if (is_position(node)) views.back() = make_index_view(to, node);
  }
  return views;
}

View make_index_view(Lowering& to, const Node& node) {
  const Axis& axis = node.over.front();
  const std::int64_t extent = axis.is_named() ? to.dims.at(axis.dim) : axis.literal;
  std::vector<std::int64_t> lengths;
  if (node.kind == Node::Kind::sequence) lengths = lengths_along(to.program, axis.dim);
  for (const auto& [buffer, counted] : to.index_buffers)
    if (counted == axis && to.plan.buffers[buffer].sequence_lengths == lengths)
      return {buffer, DType::f32, {{axis.dim, extent, 1}}};
  const View counts{to.add_buffer(DType::f32, extent), DType::f32, {{axis.dim, extent, 1}}};
  PlanBuffer& buffer = to.plan.buffers[counts.buffer];
  buffer.holds_indices = true;
  buffer.sequence_lengths = std::move(lengths);
  to.index_buffers[counts.buffer] = axis;
  return counts;
}

ops::ChainTensor make_chain_tensor(const View& view, const Shape& space) {
  ops::ChainTensor out{view.dtype, {}};
  for (const SizedAxis& axis : space) {
    const SizedAxis own_axis = axis.dim.empty() ? SizedAxis{} : axis_along(view.shape, axis.dim);
    out.strides.push_back(own_axis.extent == 1 ? 0 : own_axis.stride);
  }
  return out;
}

PlanStep make_copy_step(int group, const View& from, const View& to, std::string what) {
  ops::ChainProgram chain;
  for (const SizedAxis& axis : to.shape) chain.extents.push_back(axis.extent);
  chain.tensors = {make_chain_tensor(from, to.shape), make_chain_tensor(to, to.shape)};
  chain.steps = {{.op = ChainOp::load, .slot = 0}, {.op = ChainOp::store, .slot = 1}};
  chain.registers = 1;
  return {group, chain, {from.buffer, to.buffer}, std::move(what)};
}

void add_copy(Lowering& to, int group, const View& from, const View& copy, std::string description) {
  if (StoredFloats::contains(from.dtype)) {
    to.plan.steps.push_back(make_copy_step(group, from, copy, std::move(description)));
    return;
  }
  ops::RunningSumLoops sums{from.dtype, copy.dtype, {}, {}};  // sums of one element each
  for (std::size_t i = 0; i < copy.shape.size(); ++i)
    sums.axes.push_back({copy.shape[i].extent, from.shape[i].stride, 0, copy.shape[i].stride});
  to.plan.steps.push_back({.group = group,
                           .kernel = std::move(sums),
                           .buffers = {from.buffer, copy.buffer},
                           .copy_description = std::move(description)});
}

}  // namespace ridge
