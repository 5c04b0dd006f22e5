#include "ridge/roofline/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ridge {
namespace {

// Of each tensor the statement that makes it; -1: an input.
std::vector<int> makers(const Program& program) {
  std::vector<int> out(program.tensors.size(), -1);
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    out[static_cast<std::size_t>(program.statements[s].result())] = static_cast<int>(s);
  return out;
}

const std::string& result_of(const Program& program, int statement) {
  const int result = program.statements[static_cast<std::size_t>(statement)].result();
  return program.tensors[static_cast<std::size_t>(result)].name;
}

Result<int> statement_named(const Program& program, const std::string& name) {
  std::vector<std::string> all;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    all.push_back(result_of(program, static_cast<int>(s)));
    if (all.back() == name) return static_cast<int>(s);
  }
  return usage_error(fmt::format("no statement makes '{}'; expected some of {}", name, fmt::join(all, ", ")));
}

const std::vector<int>& group_of(const Groups& groups, int statement) {
  return *std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::find(group.begin(), group.end(), statement) != group.end();
  });
}

// Error: joining them would take along what is not named.
Status check_whole(const Program& program, const std::vector<int>& named, const std::vector<int>& joined) {
  if (joined.size() == named.size()) return Done{};
  std::vector<std::string> names;
  for (const int s : joined) names.push_back(result_of(program, s));
  return usage_error(fmt::format("expected statements after --fuse with nothing to run between them, found {} named "
                                 "of the {} that hang together",
                                 named.size(), joined.size()),
                     fmt::format("--fuse {}", fmt::join(names, ",")));
}

}  // namespace

Dependences::Dependences(const Program& program)
    : needs_(program.statements.size(), std::vector<bool>(program.statements.size())) {
  const std::vector<int> made_by = makers(program);
  for (std::size_t s = 0; s < needs_.size(); ++s)
    for (const int operand : operands(program.statements[s])) {
      const int maker = made_by[static_cast<std::size_t>(operand)];
      if (maker < 0) continue;
      const auto m = static_cast<std::size_t>(maker);
      needs_[s][m] = true;
      for (std::size_t i = 0; i < m; ++i)
        if (needs_[m][i]) needs_[s][i] = true;
    }
}

bool Dependences::needs(const std::vector<int>& later, const std::vector<int>& earlier) const {
  for (const int a : later)
    for (const int b : earlier)
      if (needs_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]) return true;
  return false;
}

Groups Dependences::joined(const Groups& groups, const std::vector<int>& members) const {
  std::vector<int> one;
  Groups rest;
  for (const std::vector<int>& group : groups) {
    const bool is_named = std::any_of(group.begin(), group.end(), [&](int s) {
      return std::find(members.begin(), members.end(), s) != members.end();
    });
    if (is_named)
      one.insert(one.end(), group.begin(), group.end());
    else
      rest.push_back(group);
  }
  const auto between = [&](const std::vector<int>& group) { return needs(group, one) && needs(one, group); };
  for (auto next = std::find_if(rest.begin(), rest.end(), between); next != rest.end();
       next = std::find_if(rest.begin(), rest.end(), between)) {
    one.insert(one.end(), next->begin(), next->end());
    rest.erase(next);
  }
  std::sort(one.begin(), one.end());
  rest.push_back(std::move(one));
  std::sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.back() < b.back(); });
  return rest;
}

Groups apart(const Program& program) {
  Groups out;
  for (std::size_t s = 0; s < program.statements.size(); ++s) out.push_back({static_cast<int>(s)});
  return out;
}

Result<Groups> groups_named(const Program& program, const std::vector<std::vector<std::string>>& lists) {
  const Dependences dependences(program);
  Groups groups = apart(program);
  std::set<std::string> seen;
  for (const std::vector<std::string>& list : lists) {
    std::vector<int> named;
    for (const std::string& name : list) {
      const auto statement = statement_named(program, name);
      if (!statement) return statement.error();
      if (!seen.insert(name).second) return usage_error(fmt::format("'{}' stands twice after --fuse", name));
      named.push_back(*statement);
    }
    groups = dependences.joined(groups, named);
    if (const Status whole = check_whole(program, named, group_of(groups, named.front())); !whole) return whole.error();
  }
  return groups;
}

}  // namespace ridge
