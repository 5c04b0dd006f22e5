// One inequality has three answers. The whole number is found by bisection with the exact comparison of compare_roofs.h
// (at most 63 steps, no rounding); the boundary is the closed form in floating point; the approximation is the closed
// form's limit, term by term, as the dimensions of the tensors without X grow.
#include "ridge/roofline/threshold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/roofline/sizes/crossings.h"

namespace ridge {
namespace {

using DimSet = std::set<std::string>;

struct RatioTerms {
  Polynomial f1, f0, m1, m0;  // Coefficients in the dimensions other than X, without a common factor
};

struct ThresholdQuery {
  const RatioTerms& terms;
  RoofRates rates;
  const Bindings& dims;
  std::span<const std::string> order;  // Dimensions that the counts depend on
  std::string r;                       // Name of the ridge in formulas
};

std::optional<RatioTerms> split_by_dim(const Ratio& ratio, const std::string& dim) {
  auto f = ratio.flops.collect_by_power(dim), m = ratio.bytes.collect_by_power(dim);
  if (f.size() > 2 || m.size() > 2) return std::nullopt;
  // X cancels: the relation is the same for every X, as if both counts were proportional to it.
  if (f.size() == 1 && m.size() == 1) return RatioTerms{f[0], 0, m[0], 0};
  f.resize(2);
  m.resize(2);
  return RatioTerms{f[1], f[0], m[1], m[0]};
}

// Returns the limit of sum/divisor (a single term) as `growing` dimensions go to infinity, or nullopt if it diverges or
// a dimension has no value.
std::optional<long double> limit_of_ratio(const Polynomial& sum, const Polynomial& divisor, const DimSet& growing,
                                          const Bindings& dims) {
  long double total = 0;
  for (const auto& [monomial, coefficient] : sum.terms()) {
    std::map<std::string, int> powers(monomial.begin(), monomial.end());
    for (const auto& [symbol, power] : divisor.terms().begin()->first) powers[symbol] -= power;
    const auto grows = [&](const auto& p) { return p.second > 0 && growing.contains(p.first); };
    const auto vanishes = [&](const auto& p) { return p.second < 0 && growing.contains(p.first); };
    if (std::any_of(powers.begin(), powers.end(), grows)) return std::nullopt;
    if (std::any_of(powers.begin(), powers.end(), vanishes)) continue;
    long double term = coefficient.to_double() / divisor.terms().begin()->second.to_double();
    for (const auto& [symbol, power] : powers) {
      if (power == 0) continue;
      const auto value = dims.find(symbol);
      if (value == dims.end()) return std::nullopt;
      term *= std::pow(static_cast<long double>(value->second), power);
    }
    total += term;
  }
  return total;
}

// Returns the ridge times a sum, with the common integer factor in front: "r*(D + F)", "2*r*D".
std::string format_ridge_times(const std::string& r, const Polynomial& sum, std::span<const std::string> order) {
  std::int64_t number = 0;
  for (const auto& term : sum.terms()) number = std::gcd(number, term.second.numerator());
  const Polynomial rest = sum * Rational(1, std::max<std::int64_t>(number, 1));
  const std::string front = number == 1 ? r : fmt::format("{}*{}", number, r);
  if (rest == Polynomial(1)) return front;
  return rest.terms().size() == 1 ? fmt::format("{}*{}", front, rest.to_string(order))
                                  : fmt::format("{}*({})", front, rest.to_string(order));
}

// Returns "f - r*m" or "r*m - f"; "r*m" if f is 0.
std::string format_difference(const std::string& ridge_part, const Polynomial& f, bool f_first,
                              std::span<const std::string> order) {
  if (f_first) return f.to_string(order) + " - " + ridge_part;
  if (f.is_zero()) return ridge_part;
  const std::string text = f.to_string(order);
  return fmt::format("{} - {}", ridge_part, f.terms().size() > 1 ? "(" + text + ")" : text);
}

// Returns "r", or another name if a dimension is called r.
std::string choose_ridge_symbol(std::span<const std::string> order) {
  std::string r = "r";
  while (contains(order, r)) r = r == "r" ? "ridge" : r + "_";
  return r;
}

std::string format_closed_form(const ThresholdQuery& q, Relation relation) {
  const RatioTerms& t = q.terms;
  const std::string& r = q.r;
  const std::string m0 = format_ridge_times(r, t.m0, q.order), m1 = format_ridge_times(r, t.m1, q.order);
  if (relation == Relation::at_most)
    return fmt::format("({})/({})",
                       t.m0.is_zero() ? t.f0.to_string(q.order) : format_difference(m0, t.f0, true, q.order),
                       format_difference(m1, t.f1, false, q.order));
  const std::string above = t.f0.is_zero() ? m0 : fmt::format("({})", format_difference(m0, t.f0, false, q.order));
  if (t.m1.is_zero() && t.f1 == Polynomial(1)) return above;
  return fmt::format("{}/({})", above,
                     t.m1.is_zero() ? t.f1.to_string(q.order) : format_difference(m1, t.f1, true, q.order));
}

void add_approximation(const ThresholdQuery& q, Threshold& threshold) {
  const RatioTerms& b = q.terms;
  if (!b.f0.is_zero() || b.f1.terms().size() != 1) return;
  const std::vector<std::string> symbols = b.m0.symbols();
  const DimSet growing(symbols.begin(), symbols.end());
  const auto a1 = limit_of_ratio(b.m1, b.f1, growing, q.dims), a0 = limit_of_ratio(b.m0, b.f1, growing, q.dims);
  const long double r = static_cast<long double>(q.rates.peak) / q.rates.bandwidth;
  if (!a1 || !a0 || *a0 <= 0) return;
  const long double left = 1 - r * *a1;
  if (left < 1e-15L) return;  // Rounding errors exceed a smaller difference
  threshold.approx = static_cast<double>(r * *a0 / left);
  std::string others;
  for (const std::string& dim : q.order)
    if (growing.contains(dim)) others += (others.empty() ? "" : ", ") + dim;
  if (!others.empty()) threshold.assuming = threshold.dim + " << " + others;
}

struct LinearCounts {
  LinearCount flops, bytes;
};

// Returns nullopt if a dimension has no value, or a number exceeds 2^63 or is negative.
std::optional<LinearCounts> evaluate_terms(const RatioTerms& b, const Bindings& dims) {
  const auto f1 = b.f1.evaluate(dims), f0 = b.f0.evaluate(dims), m1 = b.m1.evaluate(dims), m0 = b.m0.evaluate(dims);
  if (!f1 || !f0 || !m1 || !m0) return std::nullopt;
  if (std::min({*f1, *f0, *m1, *m0}) < 0) return std::nullopt;
  return LinearCounts{{*f1, *f0}, {*m1, *m0}};
}

// The comparison is linear in X, so it changes at most once between 1 and 2^63 - 1. Bisection finds that size, usually
// immediately between the two sizes next to the real boundary.
void solve_exactly(const ThresholdQuery& q, const LinearCounts& counts, Threshold& threshold) {
  const auto bound = [&](std::int64_t x) { return is_compute_bound(counts.flops, counts.bytes, x, q.rates); };
  std::int64_t low = 1, high = INT64_MAX;
  const bool at_first = bound(low), at_last = bound(high);
  if (at_first == at_last) {
    threshold.relation = at_first ? Relation::always : Relation::never;
    return;
  }
  const auto probe = [&](std::int64_t x) { (bound(x) == at_first ? low : high) = x; };
  const long double r = static_cast<long double>(q.rates.peak) / q.rates.bandwidth;
  const long double boundary =
      (r * counts.bytes.constant - counts.flops.constant) / (counts.flops.slope - r * counts.bytes.slope);
  for (const long double guess : {boundary - 2, boundary + 2})
    if (guess > low && guess < high) probe(static_cast<std::int64_t>(guess));
  while (high - low > 1) probe(low + (high - low) / 2);
  threshold.relation = at_first ? Relation::at_most : Relation::at_least;
  threshold.value = at_first ? low : high;
  // If the denominator almost vanishes, the division is only as accurate as r; the whole number is exact and bounds it.
  threshold.value_real = static_cast<double>(std::isfinite(boundary) ? std::clamp<long double>(boundary, low, high)
                                                                     : static_cast<long double>(high));
  threshold.exact = format_closed_form(q, threshold.relation);
  add_approximation(q, threshold);
}

// True if X never reaches the threshold: m1/f1 falls as unknown dimensions grow, but even its limit is at least 1/r.
bool is_ruled_out(const ThresholdQuery& q, const DimSet& unknown) {
  if (!q.terms.f0.is_zero() || q.terms.f1.terms().size() != 1) return false;
  const auto min_ratio = limit_of_ratio(q.terms.m1, q.terms.f1, unknown, q.dims);
  const long double r = static_cast<long double>(q.rates.peak) / q.rates.bandwidth;
  return min_ratio && r * *min_ratio >= 1;
}

// Returns f > r*m if both are numbers, or nullopt if they depend on sizes.
std::optional<bool> is_above_ridge(const Polynomial& f, const Polynomial& m, double r) {
  const Ratio c = cancel_common_factor(f, m);
  const auto left = c.flops.as_constant(), right = c.bytes.as_constant();
  if (!left || !right || right->is_zero()) return std::nullopt;
  return left->to_double() > r * right->to_double();
}

// Returns the value of a formula's condition if it is the same at all sizes; nullopt if there is none or sizes decide.
std::optional<bool> evaluate_condition(const ThresholdQuery& q, Relation relation) {
  const RatioTerms& b = q.terms;
  const double r = q.rates.ridge();
  if (relation == Relation::at_least) return is_above_ridge(b.f1, b.m1, r);
  if (!b.m0.is_zero()) return is_above_ridge(b.f0, b.m0, r);
  const auto stays_above = is_above_ridge(b.f1, b.m1, r);
  return stays_above ? std::optional(!*stays_above) : std::nullopt;
}

// Returns "f > r*m", or "r*m > f".
std::string format_comparison(const ThresholdQuery& q, const Polynomial& f, const Polynomial& m,
                              bool first_is_greater) {
  const Ratio c = cancel_common_factor(f, m);
  const std::string first = c.flops.to_string(q.order), second = format_ridge_times(q.r, c.bytes, q.order);
  return first_is_greater ? fmt::format("{} > {}", first, second) : fmt::format("{} > {}", second, first);
}

// Sets the relation that holds as X grows, and its condition.
void set_relation(const ThresholdQuery& q, Threshold& threshold) {
  const RatioTerms& b = q.terms;
  if (b.f1.is_zero() || b.m0.is_zero()) {  // Only the second roof can overtake as X grows
    threshold.relation = Relation::at_most;
    if (!b.m0.is_zero())
      threshold.condition = format_comparison(q, b.f0, b.m0, true);
    else if (!b.f1.is_zero())
      threshold.condition = format_comparison(q, b.f1, b.m1, false);
  } else {
    threshold.relation = Relation::at_least;
    if (!b.m1.is_zero()) threshold.condition = format_comparison(q, b.f1, b.m1, true);
    add_approximation(q, threshold);
  }
}

// Handles dimensions without a value: sets the formula and the condition under which it holds. Returns false if X
// cancels and the other dimensions decide.
bool solve_symbolically(const ThresholdQuery& q, Threshold& threshold) {
  const RatioTerms& b = q.terms;
  DimSet unknown;
  for (const Polynomial* p : {&b.f1, &b.f0, &b.m1, &b.m0})
    for (const std::string& symbol : p->symbols())
      if (!q.dims.contains(symbol)) unknown.insert(symbol);
  if (unknown.empty()) return false;
  if (is_ruled_out(q, unknown)) {
    threshold.relation = Relation::never;
    return true;
  }
  if (b.m0.is_zero() && (b.f0.is_zero() || b.m1.is_zero())) return false;
  if (b.f1.is_zero() && b.m1.is_zero()) return false;
  set_relation(q, threshold);
  const auto holds = evaluate_condition(q, threshold.relation);
  if (holds) threshold.condition.clear();
  if (holds && !*holds && threshold.relation == Relation::at_least && !b.f0.is_zero()) {
    threshold.relation = Relation::at_most;
    threshold.condition = format_comparison(q, b.f0, b.m0, true);
    threshold.approx.reset();
    threshold.assuming.clear();
  } else if (holds && !*holds) {  // One of the roofs is always the limit
    threshold.relation = b.m0.is_zero() ? Relation::always : Relation::never;
    threshold.approx.reset();
    threshold.assuming.clear();
    return true;
  }
  threshold.exact = format_closed_form(q, threshold.relation);
  return true;
}

// True if a count contains a symbol, of a mask or a shard, that depends on the dimension.
bool has_symbol_of_dim(const std::string& dim, const DimSet& symbols, const ThresholdOptions& options) {
  return std::any_of(options.symbol_dims.begin(), options.symbol_dims.end(), [&](const auto& counted) {
    return symbols.contains(counted.first) && contains(counted.second, dim);
  });
}

DimSet list_symbols(const RoofPair& pair) {
  std::vector<std::string> symbols = pair.above.symbols();
  for (std::string& symbol : pair.below.symbols()) symbols.push_back(std::move(symbol));
  return {symbols.begin(), symbols.end()};
}

// Returns the dimensions, in `order`, that the counts depend on, directly or through derived sizes.
std::vector<std::string> list_affecting_dims(const DimSet& symbols, std::span<const std::string> order,
                                             const ThresholdOptions& options) {
  const DerivedSizeMap& derived_sizes = options.derived_sizes;
  std::vector<std::string> out;
  for (const std::string& dim : order) {
    if (derived_sizes.empty() && options.symbol_dims.empty() && out.size() == symbols.size()) break;
    const auto found = derived_sizes.find(dim);
    const auto is_present = [&](const auto& size) { return symbols.contains(size.first); };
    const bool follows =
        found != derived_sizes.end() && std::any_of(found->second.sizes.begin(), found->second.sizes.end(), is_present);
    if (symbols.contains(dim) || follows || has_symbol_of_dim(dim, symbols, options)) out.push_back(dim);
  }
  return out;
}

// Returns the ratio with the dimension's derived sizes substituted, or nullopt if that is impossible.
std::optional<Ratio> substituted_ratio(const std::string& dim, const RoofPair& pair,
                                       const DerivedSizeMap& derived_sizes) {
  const DerivedSizes& derived = derived_sizes.at(dim);
  const auto above = substitute_derived_sizes(pair.above, derived),
             below = substitute_derived_sizes(pair.below, derived);
  if (!above || !below || !above->is_exact() || !below->is_exact()) return std::nullopt;
  return cancel_common_factor(*above, *below);
}

// Returns a count's coefficients by powers of `dim`, the other dimensions fixed; nullopt if it is no polynomial.
std::optional<std::vector<double>> coefficients_of(const Polynomial& count, const std::string& dim,
                                                   const Bindings& dims, const ThresholdOptions& options) {
  std::optional<Polynomial> substituted = count;
  if (const auto follows = options.derived_sizes.find(dim); follows != options.derived_sizes.end())
    substituted = substitute_derived_sizes(count, follows->second);
  const std::vector<std::string> symbols = count.symbols();
  if (!substituted || has_symbol_of_dim(dim, {symbols.begin(), symbols.end()}, options)) return std::nullopt;
  std::vector<double> out;
  for (const Polynomial& coefficient : substituted->collect_by_power(dim)) {
    if (!coefficient.is_exact() || !coefficient.has_all_values(dims)) return std::nullopt;
    out.push_back(coefficient.evaluate_double({dims.begin(), dims.end()}));
  }
  return out;
}

double evaluate_polynomial(const std::vector<double>& powers, double x) {
  double out = 0;
  for (std::size_t i = powers.size(); i-- > 0;) out = out * x + powers[i];
  return out;
}

// Returns a function from the size of `dim` to T_above / T_below.
std::function<double(std::int64_t)> make_time_ratio(const RoofPair& pair, const std::string& dim, const Bindings& dims,
                                                    const ThresholdOptions& options) {
  const double rates = pair.rates.bandwidth / pair.rates.peak;
  const auto above = coefficients_of(pair.above, dim, dims, options),
             below = coefficients_of(pair.below, dim, dims, options);
  if (above && below)
    return [=](std::int64_t value) {
      const auto x = static_cast<double>(value);
      return evaluate_polynomial(*above, x) / evaluate_polynomial(*below, x) * rates;
    };
  return [=, rebind = options.rebind](std::int64_t value) {
    const BoundSizes* rebound = rebind(dim, value);
    if (!rebound) return static_cast<double>(NAN);
    return pair.above.evaluate_double(rebound->values) / pair.below.evaluate_double(rebound->values) * rates;
  };
}

TimeComparison make_comparison(const RoofPair& pair, const std::string& dim, const Bindings& dims,
                               const ThresholdOptions& options) {
  const auto ratio = make_time_ratio(pair, dim, dims, options);
  const Ratio counts = cancel_common_factor(pair.above, pair.below);
  const auto above = [=, rebind = options.rebind](std::int64_t value) {
    const double approximate_ratio = ratio(value);
    if (std::abs(approximate_ratio - 1) > 1e-9) return approximate_ratio > 1;
    const BoundSizes* rebound = rebind(dim, value);
    const auto exact = rebound ? is_compute_bound(counts, rebound->sizes, pair.rates) : Result<bool>(false);
    return rebound && exact ? *exact : approximate_ratio >= 1;
  };
  return {ratio, above};
}

// Searches for every crossing. Returns nothing if a dimension has no value or no searches remain.
std::vector<Threshold> search_thresholds(const RoofPair& pair, const Threshold& initial, const Bindings& dims,
                                         const ThresholdOptions& options) {
  Bindings known = dims;
  known[initial.dim] = 1;
  if (!options.rebind || !pair.above.has_all_values(known) || !pair.below.has_all_values(known)) return {};
  if (options.searches_left && --*options.searches_left < 0) return {};
  const auto found = find_crossings(make_comparison(pair, initial.dim, dims, options));
  if (!found || (options.searches_left && *options.searches_left < 0)) return {};
  std::vector<Threshold> out;
  for (const Crossing& crossing : found->all) {
    out.push_back(initial);
    out.back().relation = crossing.upwards ? Relation::at_least : Relation::at_most;
    out.back().value = crossing.value;
    out.back().value_real = static_cast<double>(crossing.value);
    out.back().numerical = true;
  }
  if (!out.empty()) return out;
  out.push_back(initial);
  out.back().relation = found->starts_above ? Relation::always : Relation::never;
  out.back().numerical = true;
  return out;
}

// Solves by the closed form; returns nullopt if there is none, or no answer.
std::optional<Threshold> solve_in_closed_form(const std::optional<Ratio>& ratio, Threshold threshold,
                                              const RoofPair& pair, const Bindings& dims,
                                              std::span<const std::string> order, const std::string& r) {
  const auto terms = ratio ? split_by_dim(*ratio, threshold.dim) : std::nullopt;
  if (!terms) return std::nullopt;
  const ThresholdQuery query{*terms, pair.rates, dims, order, r};
  const auto counts = evaluate_terms(*terms, dims);
  if (pair.above.is_zero())
    threshold.relation = Relation::never;
  else if (counts)
    solve_exactly(query, *counts, threshold);
  else if (!solve_symbolically(query, threshold))
    return std::nullopt;
  return threshold;
}

// Returns the first size from `size` on, up or down, that the program accepts; nullopt if there is none nearby.
std::optional<std::int64_t> find_accepted_size(const std::string& dim, std::int64_t size, std::int64_t step,
                                               const ThresholdOptions& options) {
  constexpr std::int64_t max_steps = 64;
  for (std::int64_t i = 0; i < max_steps && size >= 1 && size < INT64_MAX; ++i, size += step)
    if (options.rebind_tensors(dim, size)) return size;
  return std::nullopt;
}

// Moves a threshold to the next size that the program accepts, an even H for P = H/2. Returns false if there are none,
// or only one: beside a fixed P a convolution's H has no other size.
bool move_to_accepted_size(Threshold& threshold, const ThresholdOptions& options) {
  if (!threshold.value || !options.rebind_tensors) return true;
  const std::int64_t step = threshold.relation == Relation::at_least ? 1 : -1;
  const auto accepted = find_accepted_size(threshold.dim, *threshold.value, step, options);
  const bool is_moved = accepted != threshold.value;
  if (!accepted || (is_moved && !find_accepted_size(threshold.dim, *accepted + step, step, options))) return false;
  threshold.value = accepted;
  return true;
}

}  // namespace

std::vector<Threshold> find_thresholds(const RoofPair& pair, const Bindings& dims, std::span<const std::string> order,
                                       const ThresholdOptions& options, std::span<const std::string> excluded) {
  std::vector<Threshold> all;
  if (!pair.above.is_exact() || !pair.below.is_exact()) return all;
  const Ratio ratio = cancel_common_factor(pair.above, pair.below);
  const DimSet symbols = list_symbols(pair);
  const std::vector<std::string> varied_dims = list_affecting_dims(symbols, order, options);
  const std::string r = choose_ridge_symbol(order);
  for (const std::string& dim : varied_dims) {
    if (contains(excluded, dim)) continue;
    const Threshold initial{.dim = dim, .roofs = pair.limiters, .ratio = pair.rates.ridge()};
    std::optional<Threshold> closed;
    if (!has_symbol_of_dim(dim, symbols, options))
      closed = solve_in_closed_form(
          options.derived_sizes.contains(dim) ? substituted_ratio(dim, pair, options.derived_sizes) : ratio, initial,
          pair, dims, varied_dims, r);
    if (closed) all.push_back(*std::move(closed));
    if (closed) continue;
    for (Threshold& found : search_thresholds(pair, initial, dims, options)) all.push_back(std::move(found));
  }
  std::erase_if(all, [&](Threshold& t) { return !move_to_accepted_size(t, options); });
  return all;
}

}  // namespace ridge
