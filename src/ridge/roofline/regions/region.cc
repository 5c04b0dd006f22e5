#include "ridge/roofline/regions/region.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "ridge/base/contains.h"

namespace ridge {

Region Region::intersect(const Formula& o) const {
  if (bound_.empty()) return Region(formula_ && o);
  std::map<std::string, std::string> names(bound_.begin(), bound_.end());
  if (o.implies(formula_.rename(names))) return Region(o);  // A subset needs no other member
  Region out = *this;
  out.formula_ = formula_ && o;
  return out;
}

Region Region::unite(const Region& o) const {
  Region out = *this;
  out.formula_ = formula_ || o.formula_;
  out.bound_.insert(o.bound_.begin(), o.bound_.end());
  const std::set<std::string> used = out.formula_.variables();
  std::erase_if(out.bound_, [&](const auto& each) { return !used.contains(each.first); });
  return out;
}

Region Region::bind_variables(const std::vector<std::string>& names) const {
  Region out = *this;
  std::map<std::string, std::string> renamed;
  for (const std::string& name : names) {
    std::string variable = name + "'";
    while (bound_.contains(variable)) variable += "'";
    renamed[name] = variable;
    out.bound_[variable] = name;
  }
  if (!renamed.empty()) out.formula_ = formula_.rename(renamed);
  return out;
}

Region Region::bind(const std::vector<Axis>& axes) const {
  std::vector<std::string> names;
  for (const std::string& dim : free_dims())
    if (has_dim(axes, dim)) names.push_back(dim);
  return bind_variables(names);
}

Region Region::project(const std::vector<Axis>& axes) const {
  std::vector<std::string> names;
  for (const std::string& dim : free_dims())
    if (!has_dim(axes, dim)) names.push_back(dim);
  return bind_variables(names);
}

std::vector<std::string> Region::free_dims() const {
  std::vector<std::string> out;
  for (const std::string& variable : formula_.variables())
    if (!bound_.contains(variable)) out.push_back(variable);
  return out;
}

std::string Region::to_string() const {
  std::vector<std::string> some;
  for (const auto& each : bound_) some.push_back(fmt::format("index({})", each.first));
  return some.empty() ? formula_.text() : fmt::format("{} for some {}", formula_.text(), fmt::join(some, ", "));
}

std::vector<std::string> dependency_dims(const CountedRegion& counted) {
  std::set<std::string> out;
  const std::function<void(const IndexSum&)> add_sum = [&](const IndexSum& sum) {
    for (std::string& symbol : sum.rest.symbols()) out.insert(std::move(symbol));
    for (const IndexSum::Quotient& q : sum.quotients) add_sum(*q.dividend);
  };
  const std::function<void(const Formula&)> add = [&](const Formula& formula) {
    if (formula.kind() == Formula::Kind::at_least_zero) add_sum(formula.sum());
    for (const Formula& part : formula.parts()) add(part);
  };
  add(counted.region.formula());
  out.insert(counted.dims.begin(), counted.dims.end());
  for (const auto& each : counted.region.bound()) out.insert(each.second);
  return {out.begin(), out.end()};
}

}  // namespace ridge
