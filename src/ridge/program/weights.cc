#include "ridge/program/weights.h"

#include <algorithm>

#include "ridge/program/routine.h"

namespace ridge {
namespace {

bool is_input(const Program& program, int tensor) { return program.tensors[tensor].role == TensorRole::input; }

// Returns the tensor that an undeclared result copies, as g[D, F] = w does, or nullopt.
std::optional<int> copied_tensor(const Program& program, const Statement& statement) {
  const auto* expression = std::get_if<Expression>(&statement.op);
  const bool is_copy = expression && expression->nodes.size() == 1 && !program.tensors[expression->result].declared;
  return is_copy ? std::optional(expression->nodes.front().tensor) : std::nullopt;
}

bool reads_weights(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  if (!routine) return std::holds_alternative<Contraction>(statement.op);
  return is_conv(routine->kind) || routine->kind == RoutineKind::routed || routine->kind == RoutineKind::gather;
}

// Weights and their copies, by tensor.
std::vector<bool> mark_weights(const Program& program) {
  const std::vector<InputUse> uses = find_input_uses(program).of_tensor;
  std::vector<bool> out(program.tensors.size());
  for (auto statement = program.statements.rbegin(); statement != program.statements.rend(); ++statement) {
    if (reads_weights(*statement))
      for (const int operand : statement_operands(*statement)) out[operand] = true;
    if (const auto copied = copied_tensor(program, *statement); copied && out[statement->result()]) out[*copied] = true;
  }
  for (std::size_t t = 0; t < out.size(); ++t)
    if (is_input(program, static_cast<int>(t))) out[t] = out[t] && uses[t] == InputUse::parameter;
  for (std::size_t t = 0; t < out.size(); ++t)
    if (!is_input(program, static_cast<int>(t))) out[t] = false;
  for (const Statement& statement : program.statements)
    if (const auto copied = copied_tensor(program, statement); copied && out[*copied]) out[statement.result()] = true;
  return out;
}

}  // namespace

std::optional<int> find_input_factor(const Program& program, const Contraction& product) {
  const int factor = is_input(program, product.right) ? product.right : product.left;
  return is_input(program, factor) ? std::optional(factor) : std::nullopt;
}

std::vector<int> find_weights(const Program& program) {
  const std::vector<bool> marked = mark_weights(program);
  std::vector<int> out;
  for (std::size_t t = 0; t < marked.size(); ++t)
    if (marked[t] && is_input(program, static_cast<int>(t))) out.push_back(static_cast<int>(t));
  return out;
}

namespace {

// Marks the inputs and undeclared results that are multiplied with a marked weight.
std::vector<bool> mark_factors_of_weights(const Program& program, const std::vector<bool>& weights) {
  std::vector<bool> out = weights;
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!reads_weights(statement) || (routine && routine->kind == RoutineKind::gather)) continue;
    const std::vector<int> operands = statement_operands(statement);
    for (const int i : {0, 1}) {
      const Tensor& other = program.tensors[operands[1 - i]];
      const bool keeps_dtype = other.role != TensorRole::input && other.declared;
      if (weights[operands[i]] && !keeps_dtype) out[operands[1 - i]] = true;
    }
  }
  return out;
}

}  // namespace

Result<Program> with_weight_dtype(Program program, DType dtype, Narrowed narrowed) {
  std::vector<bool> marked = mark_weights(program);
  if (std::none_of(marked.begin(), marked.end(), [](bool each) { return each; }))
    return usage_error("the program has no weights: no product reads a parameter, an input without batch dimension",
                       "a word before its declaration makes an input a parameter: param w: bf16[D, F]");
  if (narrowed == Narrowed::weights_and_activations) marked = mark_factors_of_weights(program, marked);
  for (std::size_t t = 0; t < marked.size(); ++t)
    if (marked[t]) program.tensors[t].dtype = dtype;
  for (StackedInput& stack : program.stacks)
    if (marked[stack.parts.front()]) stack.dtype = dtype;
  return program;
}

}  // namespace ridge
