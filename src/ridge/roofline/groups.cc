#include "ridge/roofline/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {
namespace {

const std::string& result_name(const Program& program, int statement) {
  const int result = program.statements[statement].result();
  return program.tensors[result].name;
}

Result<int> find_statement(const Program& program, const std::string& name) {
  std::vector<std::string> all;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    all.push_back(result_name(program, static_cast<int>(s)));
    if (all.back() == name) return static_cast<int>(s);
  }
  return usage_error(fmt::format("no statement computes '{}'; expected some of {}", name, fmt::join(all, ", ")));
}

const std::vector<int>& group_of(const KernelGroups& groups, int statement) {
  return *std::find_if(groups.begin(), groups.end(),
                       [&](const std::vector<int>& group) { return contains(group, statement); });
}

// Returns an error if the merged group has statements that are not named.
Status check_complete(const Program& program, const std::vector<int>& named, const std::vector<int>& joined) {
  if (joined.size() == named.size()) return Done{};
  std::vector<std::string> names;
  for (const int s : joined) names.push_back(result_name(program, s));
  return usage_error(fmt::format("expected statements after --fuse with nothing to run between them, found {} named "
                                 "of the {} that hang together",
                                 named.size(), joined.size()),
                     fmt::format("--fuse {}", fmt::join(names, ",")));
}

}  // namespace

Dependencies::Dependencies(const Program& program)
    : depends_(program.statements.size(), std::vector<bool>(program.statements.size())) {
  const TensorUses uses(program);
  for (std::size_t s = 0; s < depends_.size(); ++s)
    for (const int operand : statement_operands(program.statements[s])) {
      const int producer = uses.writer(operand);
      if (producer < 0) continue;
      const std::size_t p = producer;
      depends_[s][p] = true;
      for (std::size_t i = 0; i < p; ++i)
        if (depends_[p][i]) depends_[s][i] = true;
    }
}

bool Dependencies::has_dependency(const std::vector<int>& later, const std::vector<int>& earlier) const {
  for (const int a : later)
    for (const int b : earlier)
      if (depends_[a][b]) return true;
  return false;
}

KernelGroups Dependencies::join_groups(const KernelGroups& groups, const std::vector<int>& members) const {
  std::vector<int> merged;
  KernelGroups rest;
  for (const std::vector<int>& group : groups) {
    const bool is_named = std::any_of(group.begin(), group.end(), [&](int s) { return contains(members, s); });
    if (is_named)
      merged.insert(merged.end(), group.begin(), group.end());
    else
      rest.push_back(group);
  }
  const auto is_between = [&](const std::vector<int>& group) {
    return has_dependency(group, merged) && has_dependency(merged, group);
  };
  for (auto next = std::find_if(rest.begin(), rest.end(), is_between); next != rest.end();
       next = std::find_if(rest.begin(), rest.end(), is_between)) {
    merged.insert(merged.end(), next->begin(), next->end());
    rest.erase(next);
  }
  std::sort(merged.begin(), merged.end());
  rest.push_back(std::move(merged));
  std::sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.back() < b.back(); });
  return rest;
}

KernelGroups unfused_groups(const Program& program) {
  KernelGroups out;
  for (std::size_t s = 0; s < program.statements.size(); ++s) out.push_back({static_cast<int>(s)});
  return out;
}

Result<KernelGroups> parse_groups(const Program& program, const std::vector<std::vector<std::string>>& lists) {
  const Dependencies dependences(program);
  KernelGroups groups = unfused_groups(program);
  std::set<std::string> seen;
  for (const std::vector<std::string>& list : lists) {
    std::vector<int> named;
    for (const std::string& name : list) {
      RIDGE_TRY(statement, find_statement(program, name));
      if (!seen.insert(name).second) return usage_error(fmt::format("'{}' is named twice after --fuse", name));
      named.push_back(statement);
    }
    groups = dependences.join_groups(groups, named);
    RIDGE_TRY_STATUS(check_complete(program, named, group_of(groups, named.front())));
  }
  return groups;
}

}  // namespace ridge
