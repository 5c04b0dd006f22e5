// A default is written in the dimension that it follows from the inside out: of F = 4*D, G = 2*F first F, then G = 8*D.
#include "ridge/roofline/followers.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge {
namespace {

int degree(const Polynomial& polynomial) {
  int highest = 0;
  for (const auto& term : polynomial.terms()) {
    int sum = 0;
    for (const auto& factor : term.first) sum += factor.second;
    highest = std::max(highest, sum);
  }
  return highest;
}

bool positive(const Polynomial& polynomial) {
  return std::all_of(polynomial.terms().begin(), polynomial.terms().end(),
                     [](const auto& term) { return term.second.exact() && term.second > Rational(0); });
}

// None where it might come out with more terms than anybody reads: powers of sums grow beyond any memory.
std::optional<Polynomial> substituted(const Polynomial& in, const std::string& symbol, const Polynomial& by) {
  constexpr double most_terms = 256, most_degree = 32;
  const int power = in.degree(symbol);
  if (power == 0) return in;
  const double terms = static_cast<double>(in.terms().size()) * std::pow(static_cast<double>(by.terms().size()), power);
  if (terms > most_terms || degree(in) + power * degree(by) > most_degree) return std::nullopt;
  return in.substitute(symbol, by);
}

// Defaults in other dimensions, those that others hang on first.
using Defaults = std::vector<const Dimension*>;

void add_default(const Dimension& dim, const std::map<std::string, const Dimension*>& all, std::set<std::string>& seen,
                 Defaults& out) {
  if (!seen.insert(dim.name).second) return;
  for (const std::string& symbol : dim.value->symbols())
    if (const auto deeper = all.find(symbol); deeper != all.end()) add_default(*deeper->second, all, seen, out);
  out.push_back(&dim);
}

Defaults sorted_defaults(const Program& program, const Bindings& given) {
  std::map<std::string, const Dimension*> all;
  for (const Dimension& dim : program.dims)
    if (dim.value && !dim.value->constant() && !given.contains(dim.name)) all.emplace(dim.name, &dim);
  Defaults out;
  std::set<std::string> seen;
  for (const auto& [name, dim] : all) add_default(*dim, all, seen, out);
  return out;
}

// What follows the dimension, each written in it and in what does not follow.
Following following(const std::string& dim, const Defaults& defaults) {
  Following out;
  std::map<std::string, Polynomial> written;
  for (const Dimension* each : defaults) {
    if (each->name == dim) continue;
    std::optional<Polynomial> size = *each->value;
    bool follows = false;
    for (const std::string& symbol : each->value->symbols()) {
      const auto deeper = written.find(symbol);
      follows = follows || symbol == dim || deeper != written.end();
      if (size && deeper != written.end()) size = substituted(*size, symbol, deeper->second);
    }
    if (!follows) continue;
    out.solvable = out.solvable && size && positive(*size);
    written.emplace(each->name, out.solvable ? *size : Polynomial::symbol(dim));
    out.sizes.emplace_back(each->name, written.at(each->name));
  }
  return out;
}

}  // namespace

Followers followers(const Program& program, const Bindings& given) {
  const Defaults defaults = sorted_defaults(program, given);
  Followers out;
  for (const Dimension& dim : program.dims)
    if (Following each = following(dim.name, defaults); !each.sizes.empty()) out.emplace(dim.name, std::move(each));
  return out;
}

std::optional<Polynomial> written_out(const Polynomial& count, const Following& following) {
  if (!following.solvable) return std::nullopt;
  std::optional<Polynomial> out = count;
  for (const auto& [name, size] : following.sizes)
    if (out) out = substituted(*out, name, size);
  return out;
}

}  // namespace ridge
