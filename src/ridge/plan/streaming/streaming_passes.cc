#include "ridge/plan/streaming/metapipe_mapping.h"

#include <algorithm>

#include "ridge/base/contains.h"

namespace ridge {
namespace {

// Returns the dimensions of a statement's index space, those of the result first.
std::vector<std::string> statement_dims(const Program& program, const Statement& statement) {
  std::vector<std::string> dims;
  const auto add = [&](const std::string& dim) {
    if (!dim.empty() && !contains(dims, dim)) dims.push_back(dim);
  };
  for (const Axis& axis : program.tensors[statement.result()].axes) add(axis.dim);
  for (const int operand : statement_operands(statement))
    for (const Axis& axis : program.tensors[operand].axes) add(axis.dim);
  return dims;
}

// Returns which of the statements `left` cannot be in a pass along `dim` that ends with the last of them.
std::vector<bool> find_excluded_statements(const Program& program, const std::vector<int>& left,
                                           const std::string& dim) {
  std::vector<bool> excluded_statements(left.size(), false), read(program.tensors.size(), false), needed = read;
  for (std::size_t i = left.size(); i-- > 0;) {  // readers follow what they read
    const Statement& statement = program.statements[left[i]];
    const std::size_t result = statement.result();
    const StreamMode how = stream_mode(program, statement, dim);
    excluded_statements[i] = needed[result] || how == StreamMode::none || (how == StreamMode::sum && read[result]);
    for (const int operand : statement_operands(statement)) {
      read[operand] = true;
      if (excluded_statements[i]) needed[operand] = true;
    }
  }
  return excluded_statements;
}

// Score of a dimension for a pass. Better, in this order: fewer statements left to earlier passes, more results with
// the dimension, a larger size.
struct PassScore {
  std::ptrdiff_t excluded = 0, rows = 0;
  std::int64_t size = 1;
  bool better_than(const PassScore& o) const {
    if (excluded != o.excluded) return excluded < o.excluded;
    return rows != o.rows ? rows > o.rows : size > o.size;
  }
};

std::int64_t dim_size(const std::string& dim, const Bindings& sizes) {
  const auto size = sizes.find(dim);
  return size == sizes.end() ? 1 : size->second;
}

// Returns the pass of the last statement of `left` and removes its statements.
StreamingPass pop_last_pass(const Program& program, const Bindings& sizes, std::vector<int>& left) {
  StreamingPass pass;
  std::vector<bool> best(left.size(), true);  // a single statement if nothing streams
  best.back() = false;
  bool found = false;
  PassScore best_score;
  for (const std::string& dim : statement_dims(program, program.statements[left.back()])) {
    std::vector<bool> excluded_statements = find_excluded_statements(program, left, dim);
    if (excluded_statements.back()) continue;
    PassScore score{std::count(excluded_statements.begin(), excluded_statements.end(), true), 0, dim_size(dim, sizes)};
    for (const int s : left) score.rows += stream_mode(program, program.statements[s], dim) == StreamMode::tiles;
    if (found && !score.better_than(best_score)) continue;
    found = true;
    best_score = score;
    pass.streamed_dim = dim;
    best = std::move(excluded_statements);
  }
  std::vector<int> rest;
  for (std::size_t i = 0; i < left.size(); ++i) (best[i] ? rest : pass.statements).push_back(left[i]);
  left = std::move(rest);
  return pass;
}

}  // namespace

StreamMode stream_mode(const Program& program, const Statement& statement, const std::string& dim) {
  const bool kept = has_dim(program.tensors[statement.result()].axes, dim);
  if (const auto* product = std::get_if<Contraction>(&statement.op)) {
    const auto& sums = product->contracted;
    if (kept) return StreamMode::tiles;
    return !contains(sums, dim) ? StreamMode::none : StreamMode::sum;
  }
  const auto& nodes = std::get<Expression>(statement.op).nodes;
  const auto over_it = [&](const Node& n) { return n.kind == Node::Kind::along_dims && has_dim(n.over, dim); };
  const auto count = std::count_if(nodes.begin(), nodes.end(), over_it);
  if (kept) return count == 0 ? StreamMode::tiles : StreamMode::none;
  return count == 1 && over_it(nodes.back()) && is_reducing_function(nodes.back().function) ? StreamMode::sum
                                                                                            : StreamMode::none;
}

std::vector<StreamingPass> split_into_passes(const Program& program, const Bindings& sizes) {
  std::vector<int> left;
  for (std::size_t s = 0; s < program.statements.size(); ++s) left.push_back(static_cast<int>(s));
  std::vector<StreamingPass> passes;
  while (!left.empty()) passes.push_back(pop_last_pass(program, sizes, left));
  std::reverse(passes.begin(), passes.end());
  return passes;
}

}  // namespace ridge
