// Formulas are substituted in order of dependence: for F = 4*D, G = 2*F, first F, then G = 8*D.
#include "ridge/roofline/derived_sizes.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge {
namespace {

int total_degree(const Polynomial& polynomial) {
  int highest = 0;
  for (const auto& term : polynomial.terms()) {
    int sum = 0;
    for (const auto& factor : term.first) sum += factor.second;
    highest = std::max(highest, sum);
  }
  return highest;
}

bool has_positive_terms(const Polynomial& polynomial) {
  return std::all_of(polynomial.terms().begin(), polynomial.terms().end(),
                     [](const auto& term) { return term.second.is_exact() && term.second > Rational(0); });
}

// Returns nullopt if the result may exceed the limits: the powers of sums grow beyond any memory.
std::optional<Polynomial> substitute_limited(const Polynomial& in, const std::string& symbol, const Polynomial& by) {
  constexpr double max_terms = 256, max_degree = 32;
  const int power = in.degree_in(symbol);
  if (power == 0) return in;
  const double terms = static_cast<double>(in.terms().size()) * std::pow(static_cast<double>(by.terms().size()), power);
  if (terms > max_terms || total_degree(in) + power * total_degree(by) > max_degree) return std::nullopt;
  return in.substitute(symbol, by);
}

// Defaults that depend on other dimensions, in order of dependence.
using Defaults = std::vector<const Dimension*>;

void add_default(const Dimension& dim, const std::map<std::string, const Dimension*>& all, std::set<std::string>& seen,
                 Defaults& out) {
  if (!seen.insert(dim.name).second) return;
  for (const std::string& symbol : dim.value->symbols())
    if (const auto inner = all.find(symbol); inner != all.end()) add_default(*inner->second, all, seen, out);
  out.push_back(&dim);
}

Defaults sorted_defaults(const Program& program, const Bindings& given) {
  std::map<std::string, const Dimension*> all;
  for (const Dimension& dim : program.dims)
    if (dim.value && !dim.value->as_constant() && !given.contains(dim.name)) all.emplace(dim.name, &dim);
  Defaults out;
  std::set<std::string> seen;
  for (const auto& [name, dim] : all) add_default(*dim, all, seen, out);
  return out;
}

// Returns the sizes derived from `dim`, as formulas in it and in sizes that are not derived from it.
DerivedSizes derive_sizes(const std::string& dim, const Defaults& defaults) {
  DerivedSizes out;
  std::map<std::string, Polynomial> formulas;
  for (const Dimension* each : defaults) {
    if (each->name == dim) continue;
    std::optional<Polynomial> size = *each->value;
    bool follows = false;
    for (const std::string& symbol : each->value->symbols()) {
      const auto inner = formulas.find(symbol);
      follows = follows || symbol == dim || inner != formulas.end();
      if (size && inner != formulas.end()) size = substitute_limited(*size, symbol, inner->second);
    }
    if (!follows) continue;
    out.solvable = out.solvable && size && has_positive_terms(*size);
    formulas.emplace(each->name, out.solvable ? *size : Polynomial::make_symbol(dim));
    out.sizes.emplace_back(each->name, formulas.at(each->name));
  }
  return out;
}

}  // namespace

DerivedSizeMap find_derived_sizes(const Program& program, const Bindings& given) {
  const Defaults defaults = sorted_defaults(program, given);
  DerivedSizeMap out;
  for (const Dimension& dim : program.dims)
    if (DerivedSizes each = derive_sizes(dim.name, defaults); !each.sizes.empty())
      out.emplace(dim.name, std::move(each));
  return out;
}

std::optional<Polynomial> substitute_derived_sizes(const Polynomial& count, const DerivedSizes& derived) {
  if (!derived.solvable) return std::nullopt;
  std::optional<Polynomial> out = count;
  for (const auto& [name, size] : derived.sizes)
    if (out) out = substitute_limited(*out, name, size);
  return out;
}

}  // namespace ridge
