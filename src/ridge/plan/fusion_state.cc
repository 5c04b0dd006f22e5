#include "ridge/plan/fusion_state.h"

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/plan/lower.h"
#include "ridge/plan/plan.h"
#include "ridge/program/routine.h"

namespace ridge {

FusionState::FusionState(const Program& the_program, const std::vector<Shape>& all_shapes,
                         const FuseOptions& fuse_options)
    : program(the_program), shapes(all_shapes), options(fuse_options), uses(the_program) {
  for (const Shape& shape : shapes) {
    std::set<std::string>& keys = index_spaces.emplace_back();
    for (const SizedAxis& axis : shape)
      if (axis.extent > 1) keys.insert(axis.dim);
  }
  for (int s = 0; s < statement_count(); ++s) {
    group_of.push_back(s);
    members.push_back({s});
  }
}

bool FusionState::must_be_stored(int tensor) const {
  return program.tensors[tensor].role != TensorRole::intermediate || contains(options.stored_tensors, tensor);
}

std::vector<int> FusionState::tensors_of(int s) const {
  std::vector<int> all = statement_operands(statement_at(s));
  all.push_back(result_of(s));
  return all;
}

bool FusionState::is_convolution_product(int s) const {
  const Expression* const conv = convolution_of(statement_at(s));
  if (conv == nullptr) return false;
  return options.target == Target::cuda ? !device_convolution_blocker(program, shapes, *conv)
                                        : !convolution_blocker(program, shapes, *conv);
}

StatementForm FusionState::form_of(int s) const {
  if (is_convolution_product(s)) return StatementForm::convolution;
  if (routine_of(statement_at(s)) || is_grouped(s) || is_scaled_product(s)) return StatementForm::standalone;
  if (const auto* c = std::get_if<Contraction>(&statement_at(s).op))
    return has_sum(*c) ? StatementForm::product : StatementForm::pointwise;
  for (const Node& node : std::get<Expression>(statement_at(s).op).nodes)
    if (node.kind == Node::Kind::along_dims) return StatementForm::along_dims;
  return StatementForm::pointwise;
}

bool FusionState::is_grouped(int s) const {
  const auto* c = std::get_if<Contraction>(&statement_at(s).op);
  return c && c->grouped;
}

bool FusionState::is_scaled_product(int s) const {
  const auto* c = std::get_if<Contraction>(&statement_at(s).op);
  return c && has_block_scaled_factor(program, *c);
}

bool FusionState::is_row_sum(int s, const std::vector<int>& set) const {
  if (form_of(s) != StatementForm::product) return false;
  const auto& c = std::get<Contraction>(statement_at(s).op);
  return c.literal_contracted == 1 && index_space(c.left) == index_space(c.right) &&
         std::any_of(set.begin(), set.end(), [&](int other) {
           return form_of(other) != StatementForm::product && index_space(result_of(other)) == index_space(c.left);
         });
}

bool FusionState::is_internal(int s, const std::vector<int>& set) const {
  const std::vector<int>& readers = uses.readers(result_of(s));
  const bool is_recomputed = std::any_of(recomputed_statements.begin(), recomputed_statements.end(),
                                         [&](const auto& by) { return contains(by.second, s); });
  return !must_be_stored(result_of(s)) && set.size() > 1 &&
         std::all_of(readers.begin(), readers.end(), [&](int reader) {
           return contains(set, reader) || (is_recomputed && kernel_computes(reader, s));
         });
}

bool FusionState::kernel_computes(int s, int other) const {
  return contains(kernel_with(s), other) || contains(recomputed_by(group_of[s]), other);
}

std::vector<int> FusionState::recomputed_by(int g) const {
  const auto found = recomputed_statements.find(g);
  return found == recomputed_statements.end() ? std::vector<int>{} : found->second;
}

bool FusionState::would_create_cycle(const std::vector<int>& set) const {
  std::set<int> seen;
  std::vector<int> next;
  const auto leave = [&](int s) {
    for (const int reader : uses.readers(result_of(s)))
      if (!contains(set, reader) && seen.insert(group_of[reader]).second) next.push_back(group_of[reader]);
  };
  for (const int s : set) leave(s);
  while (!next.empty()) {
    const int g = next.back();
    next.pop_back();
    for (const int s : members[g])
      for (const int reader : uses.readers(result_of(s))) {
        if (contains(set, reader)) return true;
        if (seen.insert(group_of[reader]).second) next.push_back(group_of[reader]);
      }
  }
  return false;
}

void FusionState::merge_statements(const std::vector<int>& set) {
  const int g = set.back();
  for (const int s : set) members[group_of[s]].clear();
  for (const int s : set) group_of[s] = g;
  members[g] = set;
}

std::vector<int> FusionState::topological_order() const {
  std::vector<std::set<int>> successors(members.size());
  for (int s = 0; s < statement_count(); ++s)
    for (const int reader : uses.readers(result_of(s)))
      if (group_of[reader] != group_of[s]) successors[group_of[s]].insert(group_of[reader]);
  return order_groups(members, successors);
}

void sort_unique(std::vector<int>& set) {
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

std::vector<int> unite_statements(std::vector<int> set, const std::vector<int>& more) {
  set.insert(set.end(), more.begin(), more.end());
  sort_unique(set);
  return set;
}

}  // namespace ridge
