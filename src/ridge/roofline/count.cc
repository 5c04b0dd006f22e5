// Work from the notation alone. A contraction multiplies and adds once for every combination of its dimensions:
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]: 2*B*D*F FLOPs; the 2*D-1 operations that an element really takes are 2*D
//   here,
// as everywhere in the field. A pointwise expression is applied to every element of its result, so an operand that is
// broadcast costs its operations for each element and its bytes once.
#include <algorithm>

#include "ridge/roofline/work.h"

namespace ridge {
namespace {

Polynomial elements(const Tensor& tensor) {
  Polynomial count = 1;
  for (const Axis& axis : tensor.axes) count = count * axis.extent();
  return count;
}

Polynomial stored_bytes(const Tensor& tensor) { return elements(tensor) * Rational(bits(tensor.dtype), 8); }

Polynomial bytes_of_distinct(const Program& program, std::vector<int> tensors) {
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  Polynomial bytes;
  for (const int t : tensors) bytes = bytes + stored_bytes(program.tensors[t]);
  return bytes;
}

void count_op(const Program& program, const Contraction& op, Work& work) {
  Polynomial summed = op.literal_contracted;
  for (const std::string& dim : op.contracted) summed = summed * Polynomial::symbol(dim);
  work.contraction = summed != Polynomial(1);
  if (work.contraction) work.math = wider(program.tensors[op.left].dtype, program.tensors[op.right].dtype);
  work.flops = elements(program.tensors[op.result]) * summed * (work.contraction ? 2 : 1);
  work.bytes_in = bytes_of_distinct(program, {op.left, op.right});
}

// A call whose arguments are all numbers is a constant, computed once, and costs nothing.
void count_op(const Program& program, const Pointwise& op, Work& work) {
  std::vector<int> operands;
  std::vector<bool> varies;
  Polynomial calls;
  for (const Node& node : op.nodes) {
    if (node.kind == Node::Kind::tensor) operands.push_back(node.tensor);
    varies.push_back(node.kind == Node::Kind::tensor ||
                     std::any_of(node.arguments.begin(), node.arguments.end(), [&](int a) { return varies[a]; }));
    if (node.kind == Node::Kind::call && varies.back()) calls = calls + node.repeat;
  }
  work.flops = elements(program.tensors[op.result]) * calls;
  work.bytes_in = bytes_of_distinct(program, operands);
}

}  // namespace

std::vector<Work> count(const Program& program) {
  std::vector<Work> all;
  for (const Statement& statement : program.statements) {
    const Tensor& result = program.tensors[statement.result()];
    Work work{.name = result.name, .text = statement.text};
    std::visit([&](const auto& op) { count_op(program, op, work); }, statement.op);
    work.bytes_out = stored_bytes(result);
    all.push_back(std::move(work));
  }
  return all;
}

}  // namespace ridge
