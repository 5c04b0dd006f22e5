#include "ridge/program/weights.h"

#include <algorithm>

#include "ridge/base/contains.h"

namespace ridge {
namespace {

bool is_input(const Program& program, int tensor) { return program.tensors[tensor].role == TensorRole::input; }

}  // namespace

std::optional<int> find_input_factor(const Program& program, const Contraction& product) {
  const int factor = is_input(program, product.right) ? product.right : product.left;
  return is_input(program, factor) ? std::optional(factor) : std::nullopt;
}

std::vector<int> find_weights(const Program& program) {
  std::vector<int> out;
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (!product || !product->batch.empty()) continue;
    const auto factor = find_input_factor(program, *product);
    if (factor && !contains(out, *factor)) out.push_back(*factor);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<Program> with_weight_dtype(Program program, DType dtype) {
  const std::vector<int> weights = find_weights(program);
  if (weights.empty())
    return usage_error("the program has no weights: no product without batch dimensions has an input as a factor");
  for (const int tensor : weights) program.tensors[tensor].dtype = dtype;
  for (StackedInput& stack : program.stacks)
    if (contains(weights, stack.parts.front())) stack.dtype = dtype;
  return program;
}

}  // namespace ridge
