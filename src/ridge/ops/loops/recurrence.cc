#include "ridge/ops/loops/recurrence.h"

#include <algorithm>

namespace ridge::ops {
namespace {

using NodeKind = RecurrenceNode::Kind;

ScanTensor make_scan_tensor(const RecurrenceOperand& operand, void* data) {
  return {operand.dtype, data, {operand.strides.begin(), operand.strides.end() - 1}, operand.strides.back()};
}
ScanTensor make_index_tensor(const RecurrenceLoops& l, std::size_t axis) {
  std::vector<std::int64_t> strides(l.extents.size());
  strides[axis] = 1;
  return make_scan_tensor({DType::f32, strides}, nullptr);
}

// Orders the lines' axes by the result's strides, drops those of extent 1, and merges adjacent ones.
void merge_line_axes(ScanProblem& p) {
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < p.line_extents.size(); ++a)
    if (p.line_extents[a] > 1) order.push_back(a);
  const auto stride = [&](std::size_t t, std::size_t a) { return p.tensors[t].line_strides[a]; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return stride(p.tensors.size() - 1, a) > stride(p.tensors.size() - 1, b);
  });
  std::vector<std::vector<std::size_t>> merged;  // Axes from the outermost; each entry is one axis.
  for (const std::size_t a : order) {
    bool continues = !merged.empty();
    for (std::size_t t = 0; continues && t < p.tensors.size(); ++t)
      continues = stride(t, merged.back().back()) == stride(t, a) * p.line_extents[a];
    continues ? merged.back().push_back(a) : merged.push_back({a});
  }
  std::vector<std::int64_t> extents;
  for (const auto& axes : merged) {
    extents.push_back(1);
    for (const std::size_t a : axes) extents.back() *= p.line_extents[a];
  }
  for (ScanTensor& tensor : p.tensors) {
    std::vector<std::int64_t> strides;
    for (const auto& axes : merged) strides.push_back(tensor.line_strides[axes.back()]);
    tensor.line_strides = strides;
  }
  p.line_extents = extents;
}

// Chains have no `greater` and no `greater_equal`: the operands are swapped.
ChainStep make_call_step(const RecurrenceNode& node, int result) {
  const auto argument = [&](std::size_t k) { return k < node.arguments.size() ? node.arguments[k] : 0; };
  ChainStep step{node.function, result, argument(0), argument(1), argument(2), 0, 0, node.repeat};
  const bool is_greater = node.function == Function::greater,
             is_swapped = is_greater || node.function == Function::greater_equal;
  if (!is_swapped) return step;
  step.op = is_greater ? ChainOp::less : ChainOp::less_equal;
  std::swap(step.a, step.b);
  return step;
}

// Returns the step as a chain whose last two tensors are the result and the previous result.
ChainProgram make_step_chain(const RecurrenceLoops& l, const std::vector<int>& slots, int tensors) {
  const int result = tensors - 1, previous = tensors;
  ChainProgram out;
  out.extents = {1};
  out.registers = static_cast<int>(l.nodes.size());
  out.tensors.assign(tensors + 1, {DType::f32, {0}});
  for (int i = 0; i < out.registers; ++i) {
    const RecurrenceNode& node = l.nodes[i];
    ChainStep step{.op = ChainOp::load, .result = i, .slot = slots[i]};
    if (node.kind == NodeKind::previous) step.slot = previous;
    if (node.kind == NodeKind::number)
      step = {.op = ChainOp::constant, .result = i, .constant = static_cast<float>(node.number)};
    if (node.kind == NodeKind::call) step = make_call_step(node, i);
    out.steps.push_back(step);
  }
  for (const int slot : {result, previous})
    out.steps.push_back({.op = ChainOp::store, .a = out.registers - 1, .slot = slot});
  return out;
}

}  // namespace

ScanProblem make_scan_problem(const RecurrenceLoops& l, std::span<void* const> data) {
  ScanProblem out;
  out.line_extents.assign(l.extents.begin(), l.extents.end() - 1);
  out.steps = l.extents.back();
  for (const std::int64_t extent : out.line_extents) out.lines *= extent;
  for (std::size_t i = 0; i + 1 < l.operands.size(); ++i)
    out.tensors.push_back(make_scan_tensor(l.operands[i], data[i]));
  std::vector<int> slots;
  for (const RecurrenceNode& node : l.nodes) {
    slots.push_back(node.kind == NodeKind::index ? static_cast<int>(out.tensors.size()) : node.operand);
    if (node.kind == NodeKind::index) out.tensors.push_back(make_index_tensor(l, node.axis));
  }
  out.tensors.push_back(make_scan_tensor(l.operands.back(), data.back()));
  merge_line_axes(out);
  out.step = make_step_chain(l, slots, static_cast<int>(out.tensors.size()));
  return out;
}

}  // namespace ridge::ops
