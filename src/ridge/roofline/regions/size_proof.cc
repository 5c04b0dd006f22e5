// A polynomial in sizes of at least 1 is not negative if it has no negative coefficient in the sizes less 1. A region
// is everything if one index along a bound dimension serves all tuples: the first, the last, or that of another
// dimension.
#include "ridge/roofline/regions/size_proof.h"

#include <algorithm>

namespace ridge {
namespace {

constexpr int max_substitutions = 16;    // Ties follow each other in a few steps
constexpr std::size_t max_shifted = 64;  // Limit of the terms after a shift

Formula replace_index(const Formula& formula, const std::string& variable, const IndexSum& by) {
  if (formula.kind() == Formula::Kind::at_least_zero) {
    IndexSum sum = formula.sum();
    const auto found = sum.indices.find(variable);
    const Rational factor = found == sum.indices.end() ? Rational(0) : found->second;
    sum.indices.erase(variable);
    sum = sum.plus(by, factor);
    std::set<std::string> left;
    sum.add_variables(left);
    return left.contains(variable) ? Formula(false) : Formula::at_least_zero(sum);
  }
  if (formula.is_all() || formula.is_none()) return formula;
  const bool is_conjunction = formula.kind() == Formula::Kind::conjunction;
  Formula out(is_conjunction);
  for (const Formula& part : formula.parts()) {
    const Formula replaced = replace_index(part, variable, by);
    out = is_conjunction ? out && replaced : out || replaced;
  }
  return out;
}

}  // namespace

bool SizeProof::is_at_least_zero(const Polynomial& size) const {
  Polynomial rest = size;
  for (int i = 0; i < max_substitutions; ++i) {
    const std::vector<std::string> symbols = rest.symbols();
    const auto tied = std::find_if(symbols.begin(), symbols.end(), [&](const auto& s) { return ties_.contains(s); });
    if (tied == symbols.end()) break;
    rest = rest.substitute(*tied, ties_.at(*tied));
  }
  for (const std::string& symbol : rest.symbols()) {
    if (rest.terms().size() > max_shifted) return false;
    rest = rest.substitute(symbol, Polynomial::make_symbol(symbol) + 1);
  }
  return std::all_of(rest.terms().begin(), rest.terms().end(),
                     [](const auto& term) { return term.second.is_exact() && term.second > Rational(0); });
}

// Every sum is least at the first or the last index of each dimension.
bool SizeProof::holds_everywhere(const Formula& formula) const {
  const auto holds = [&](const Formula& part) { return holds_everywhere(part); };
  switch (formula.kind()) {
    case Formula::Kind::all: return true;
    case Formula::Kind::none: return false;
    case Formula::Kind::conjunction: return std::all_of(formula.parts().begin(), formula.parts().end(), holds);
    case Formula::Kind::disjunction: return std::any_of(formula.parts().begin(), formula.parts().end(), holds);
    case Formula::Kind::at_least_zero: break;
  }
  const IndexSum& sum = formula.sum();
  if (!sum.quotients.empty() || !sum.sequences.empty()) return false;
  Polynomial least = sum.rest;
  for (const auto& [variable, factor] : sum.indices) {
    const Polynomial last = Polynomial::make_symbol(variable) - 1;
    if (factor < Rational(0)) least += last * Polynomial(factor);
  }
  return is_at_least_zero(least);
}

// Tries the first, the last, and the indices of kept dimensions for one open variable after another.
bool SizeProof::has_witnesses(const Formula& formula, const CountedRegion& region,
                              std::vector<std::string> open) const {
  if (open.empty()) return holds_everywhere(formula);
  const std::string variable = open.back(), dim = region.region.bound().at(variable);
  open.pop_back();
  const Polynomial size = Polynomial::make_symbol(dim);
  for (const IndexSum& index : {IndexSum{}, IndexSum{.rest = size - 1}})
    if (has_witnesses(replace_index(formula, variable, index), region, open)) return true;
  if (region.mesh.contains(dim)) return false;  // A device has only some of the indices
  return std::any_of(region.dims.begin(), region.dims.end(), [&](const std::string& kept) {
    return is_at_least_zero(size - Polynomial::make_symbol(kept)) &&
           has_witnesses(formula.rename({{variable, kept}}), region, open);
  });
}

bool SizeProof::is_everything(const CountedRegion& counted) const {
  constexpr std::size_t max_bound = 3;
  std::vector<std::string> open;
  bool splits_bound = false;
  for (const auto& [variable, dim] : counted.region.bound()) {
    open.push_back(variable);
    splits_bound = splits_bound || counted.mesh.contains(dim);
  }
  if (open.size() > max_bound || (splits_bound && counted.mesh.size() > 1)) return false;
  return has_witnesses(counted.region.formula(), counted, std::move(open));
}

}  // namespace ridge
