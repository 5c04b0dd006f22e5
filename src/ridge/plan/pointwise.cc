// A pointwise statement as one chain: each tensor loaded once a use, every value in a register until its last use, one
// store. y = (u + bu) * gelu(g + bg) needs three registers.
#include <fmt/format.h>

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
    case Function::less: return ChainOp::less;
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

class Chain {
 public:
  Chain(Lowering& to, const Pointwise& p)
      : to_(to), pointwise_(p), space_(to.shape_of(p.result)), registers_(p.nodes) {}

  Step lower(int statement) {
    for (const SizedAxis& axis : space_) chain_.extents.push_back(axis.extent);
    for (std::size_t i = 0; i < pointwise_.nodes.size(); ++i) emit(i);
    const int value = registers_.of(static_cast<int>(pointwise_.nodes.size()) - 1);
    chain_.steps.push_back({.op = ChainOp::store, .a = value, .slot = slot(pointwise_.result)});
    chain_.registers = registers_.count();
    return {statement, chain_, buffers_, ""};
  }

 private:
  void emit(std::size_t i) {
    const Node& node = pointwise_.nodes[i];
    ChainStep step{};
    if (node.kind == Node::Kind::tensor) {
      step = {.op = ChainOp::load, .slot = slot(node.tensor)};
    } else if (node.kind == Node::Kind::number) {
      step = {.op = ChainOp::constant, .constant = static_cast<float>(node.number)};
    } else {
      int in[3] = {0, 0, 0};
      for (std::size_t j = 0; j < node.arguments.size() && j < 3; ++j) in[j] = registers_.of(node.arguments[j]);
      step = {.op = chain_op(node.function), .a = in[0], .b = in[1], .c = in[2], .repeat = node.repeat};
      registers_.release(node, i);
    }
    step.result = registers_.take(i);
    chain_.steps.push_back(step);
  }

  int slot(int tensor) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] == tensor) return static_cast<int>(i);
    buffers_.push_back(tensor);
    chain_.tensors.push_back(chain_tensor({tensor, to_.dtype_of(tensor), to_.shape_of(tensor)}, space_));
    return static_cast<int>(buffers_.size()) - 1;
  }

  Lowering& to_;
  const Pointwise& pointwise_;
  Shape space_;
  Registers registers_;
  ChainProgram chain_;
  std::vector<int> buffers_;
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

void lower(Lowering& to, int statement, const Pointwise& p) { to.plan.steps.push_back(Chain(to, p).lower(statement)); }

}  // namespace ridge
