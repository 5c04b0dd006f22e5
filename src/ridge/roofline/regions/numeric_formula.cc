#include "ridge/roofline/regions/numeric_formula.h"

#include <algorithm>

namespace ridge {
namespace {

std::int64_t sequence_at(const NumericSum::Sequence& sequence, std::int64_t index) {
  return std::upper_bound(sequence.ends.begin(), sequence.ends.end(), index) - sequence.ends.begin();
}

void add_to_range(NumericRange& range, std::int64_t factor, __int128 low, __int128 high) {
  range.low += factor * (factor > 0 ? low : high);
  range.high += factor * (factor > 0 ? high : low);
}

}  // namespace

NumericRange find_range(const NumericSum& sum, const Box& box) {
  NumericRange out{sum.rest, sum.rest};
  for (std::size_t v = 0; v < max_variables; ++v)
    if (sum.factors[v] != 0) add_to_range(out, sum.factors[v], box[v].low, box[v].high);
  for (const NumericSum::Sequence& s : sum.sequences)
    add_to_range(out, s.coefficient, sequence_at(s, box[s.variable].low), sequence_at(s, box[s.variable].high));
  for (const NumericSum::Quotient& q : sum.quotients) {
    const NumericRange inner = find_range(q.dividend.front(), box);
    add_to_range(out, q.coefficient, divide_down(inner.low, q.divisor), divide_down(inner.high, q.divisor));
  }
  return out;
}

std::optional<LinearSum> find_linear_sum(const NumericSum& sum, const Box& box) {
  LinearSum out{sum.factors, sum.rest};
  for (std::size_t v = 0; v < max_variables; ++v)
    if (out.factors[v] != 0 && box[v].count() == 1) {
      out.rest += static_cast<__int128>(out.factors[v]) * box[v].low;
      out.factors[v] = 0;
    }
  for (const NumericSum::Sequence& s : sum.sequences) {
    const std::int64_t first = sequence_at(s, box[s.variable].low);
    if (first != sequence_at(s, box[s.variable].high)) return std::nullopt;
    out.rest += static_cast<__int128>(s.coefficient) * first;
  }
  for (const NumericSum::Quotient& q : sum.quotients) {
    const NumericRange inner = find_range(q.dividend.front(), box);
    const __int128 first = divide_down(inner.low, q.divisor);
    if (first != divide_down(inner.high, q.divisor)) return std::nullopt;
    out.rest += q.coefficient * first;
  }
  return out;
}

// Builds the lists of sums and parts.
struct NumericFormula::Compiler {
  NumericFormula& out;
  const std::vector<std::string>& variables;
  const std::map<std::string, std::vector<std::int64_t>>& ends;
  const Bindings& sizes;

  std::size_t find_variable(const std::string& name) const {
    return static_cast<std::size_t>(std::find(variables.begin(), variables.end(), name) - variables.begin());
  }

  std::optional<NumericSum> compile_sum(const IndexSum& sum) const {
    NumericSum numeric;
    const auto rest = sum.rest.evaluate(sizes);
    if (!rest) return std::nullopt;
    numeric.rest = *rest;
    for (const auto& [name, c] : sum.indices) numeric.factors[find_variable(name)] = c.numerator();
    for (const auto& [name, c] : sum.sequences) {
      const auto known = ends.find(name);
      if (known == ends.end()) return std::nullopt;
      numeric.sequences.push_back({c.numerator(), find_variable(name), known->second});
    }
    for (const IndexSum::Quotient& q : sum.quotients) {
      auto dividend = compile_sum(*q.dividend);
      if (!dividend) return std::nullopt;
      numeric.quotients.push_back({q.coefficient.numerator(), q.divisor, {*std::move(dividend)}});
    }
    return numeric;
  }

  std::optional<std::size_t> add_part(const Formula& formula) {
    Part part{.kind = formula.kind()};
    if (part.kind == Formula::Kind::at_least_zero) {
      auto sum = compile_sum(formula.sum());
      if (!sum) return std::nullopt;
      part.sum = out.sums_.size();
      out.sums_.push_back(*std::move(sum));
    }
    for (const Formula& each : formula.parts()) {
      const auto added = add_part(each);
      if (!added) return std::nullopt;
      part.parts.push_back(*added);
    }
    out.parts_.push_back(std::move(part));
    return out.parts_.size() - 1;
  }
};

std::optional<NumericFormula> NumericFormula::compile(const Formula& formula, const std::vector<std::string>& variables,
                                                      const std::map<std::string, std::vector<std::int64_t>>& ends,
                                                      const Bindings& sizes) {
  NumericFormula out;
  if (variables.size() > max_variables || !Compiler{out, variables, ends, sizes}.add_part(formula)) return std::nullopt;
  return out;
}

Truth NumericFormula::evaluate_part(std::size_t at, const std::vector<Truth>& signs) const {
  const Part& part = parts_[at];
  switch (part.kind) {
    case Formula::Kind::all: return Truth::yes;
    case Formula::Kind::none: return Truth::no;
    case Formula::Kind::at_least_zero: return signs[part.sum];
    default: break;
  }
  const Truth decisive = part.kind == Formula::Kind::conjunction ? Truth::no : Truth::yes;
  Truth out = decisive == Truth::no ? Truth::yes : Truth::no;
  for (const std::size_t each : part.parts) {
    const Truth value = evaluate_part(each, signs);
    if (value == decisive) return decisive;
    if (value == Truth::open) out = Truth::open;
  }
  return out;
}

void NumericFormula::collect_open(std::size_t at, const std::vector<Truth>& signs,
                                  std::vector<std::size_t>& out) const {
  if (evaluate_part(at, signs) != Truth::open) return;
  if (parts_[at].kind == Formula::Kind::at_least_zero) out.push_back(parts_[at].sum);
  for (const std::size_t each : parts_[at].parts) collect_open(each, signs, out);
}

Truth NumericFormula::evaluate(const Box& box, std::vector<Truth>& signs) const {
  signs.clear();
  for (const NumericSum& sum : sums_) {
    const NumericRange range = find_range(sum, box);
    if (range.low >= 0)
      signs.push_back(Truth::yes);
    else
      signs.push_back(range.high < 0 ? Truth::no : Truth::open);
  }
  return evaluate(signs);
}

std::vector<std::size_t> NumericFormula::list_open_sums(const std::vector<Truth>& signs) const {
  std::vector<std::size_t> out;
  collect_open(parts_.size() - 1, signs, out);
  return out;
}

bool NumericFormula::has_quotients() const {
  return std::any_of(sums_.begin(), sums_.end(), [](const NumericSum& sum) { return !sum.quotients.empty(); });
}

}  // namespace ridge
