#include "ridge/program/weights.h"

#include <algorithm>

namespace ridge {
namespace {

bool is_input(const Program& program, int tensor) {
  return program.tensors[static_cast<std::size_t>(tensor)].role == Role::input;
}

}  // namespace

std::optional<int> kept_factor(const Program& program, const Contraction& product) {
  const int kept = is_input(program, product.right) ? product.right : product.left;
  return is_input(program, kept) ? std::optional(kept) : std::nullopt;
}

std::vector<int> weights(const Program& program) {
  std::vector<int> out;
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (!product || !product->batch.empty()) continue;
    const auto kept = kept_factor(program, *product);
    if (kept && std::find(out.begin(), out.end(), *kept) == out.end()) out.push_back(*kept);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<Program> with_weights(Program program, DType dtype) {
  const std::vector<int> kept = weights(program);
  if (kept.empty())
    return usage_error("the program has no weights: no product without a batch has an input for a factor");
  for (const int tensor : kept) program.tensors[static_cast<std::size_t>(tensor)].dtype = dtype;
  for (Stack& stack : program.stacks)
    if (std::find(kept.begin(), kept.end(), stack.parts.front()) != kept.end()) stack.dtype = dtype;
  return program;
}

}  // namespace ridge
