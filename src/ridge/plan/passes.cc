#include "ridge/plan/passes.h"

#include <algorithm>

namespace ridge {
namespace {

bool has(const std::vector<Axis>& axes, const std::string& dim) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.dim == dim; });
}

// Returns the dimensions of a statement's index space, those of the result first.
std::vector<std::string> dims_of(const Program& program, const Statement& statement) {
  std::vector<std::string> dims;
  const auto add = [&](const std::string& dim) {
    if (!dim.empty() && std::find(dims.begin(), dims.end(), dim) == dims.end()) dims.push_back(dim);
  };
  for (const Axis& axis : program.tensors[static_cast<std::size_t>(statement.result())].axes) add(axis.dim);
  for (const int operand : operands(statement))
    for (const Axis& axis : program.tensors[static_cast<std::size_t>(operand)].axes) add(axis.dim);
  return dims;
}

// Returns which of the statements `left` cannot be in a pass along `dim` that ends with the last of them.
std::vector<bool> earlier(const Program& program, const std::vector<int>& left, const std::string& dim) {
  std::vector<bool> early(left.size(), false), read(program.tensors.size(), false), needed = read;
  for (std::size_t i = left.size(); i-- > 0;) {  // readers follow what they read
    const Statement& statement = program.statements[static_cast<std::size_t>(left[i])];
    const auto result = static_cast<std::size_t>(statement.result());
    const Streams how = streams(program, statement, dim);
    early[i] = needed[result] || how == Streams::no || (how == Streams::sum && read[result]);
    for (const int operand : operands(statement)) {
      read[static_cast<std::size_t>(operand)] = true;
      if (early[i]) needed[static_cast<std::size_t>(operand)] = true;
    }
  }
  return early;
}

// Score of a dimension for a pass. Better, in this order: fewer statements left to earlier passes, more results with
// the dimension, a larger size.
struct Fit {
  std::ptrdiff_t leaves = 0, rows = 0;
  std::int64_t size = 1;
  bool better_than(const Fit& o) const {
    if (leaves != o.leaves) return leaves < o.leaves;
    return rows != o.rows ? rows > o.rows : size > o.size;
  }
};

std::int64_t size_of(const std::string& dim, const Bindings& sizes) {
  const auto size = sizes.find(dim);
  return size == sizes.end() ? 1 : size->second;
}

// Returns the pass of the last statement of `left` and removes its statements.
Pass last_pass(const Program& program, const Bindings& sizes, std::vector<int>& left) {
  Pass pass;
  std::vector<bool> best(left.size(), true);  // a single statement if nothing streams
  best.back() = false;
  bool found = false;
  Fit best_fit;
  for (const std::string& dim : dims_of(program, program.statements[static_cast<std::size_t>(left.back())])) {
    std::vector<bool> early = earlier(program, left, dim);
    if (early.back()) continue;
    Fit fit{std::count(early.begin(), early.end(), true), 0, size_of(dim, sizes)};
    for (const int s : left)
      fit.rows += streams(program, program.statements[static_cast<std::size_t>(s)], dim) == Streams::rows;
    if (found && !fit.better_than(best_fit)) continue;
    found = true;
    best_fit = fit;
    pass.rows = dim;
    best = std::move(early);
  }
  std::vector<int> rest;
  for (std::size_t i = 0; i < left.size(); ++i) (best[i] ? rest : pass.statements).push_back(left[i]);
  left = std::move(rest);
  return pass;
}

}  // namespace

Streams streams(const Program& program, const Statement& statement, const std::string& dim) {
  const bool kept = has(program.tensors[static_cast<std::size_t>(statement.result())].axes, dim);
  if (const auto* product = std::get_if<Contraction>(&statement.op)) {
    const auto& sums = product->contracted;
    if (kept) return Streams::rows;
    return std::find(sums.begin(), sums.end(), dim) == sums.end() ? Streams::no : Streams::sum;
  }
  const auto& nodes = std::get<Expression>(statement.op).nodes;
  const auto over_it = [&](const Node& n) { return n.kind == Node::Kind::along && has(n.over, dim); };
  const auto count = std::count_if(nodes.begin(), nodes.end(), over_it);
  if (kept) return count == 0 ? Streams::rows : Streams::no;
  return count == 1 && over_it(nodes.back()) && reduces(nodes.back().function) ? Streams::sum : Streams::no;
}

std::vector<Pass> passes_of(const Program& program, const Bindings& sizes) {
  std::vector<int> left;
  for (std::size_t s = 0; s < program.statements.size(); ++s) left.push_back(static_cast<int>(s));
  std::vector<Pass> passes;
  while (!left.empty()) passes.push_back(last_pass(program, sizes, left));
  std::reverse(passes.begin(), passes.end());
  return passes;
}

}  // namespace ridge
