// Three answers of one inequality. The whole number is searched for with the exact comparison of balance.h (at most 63
// steps, no rounding); the boundary is the closed form in floating point; the approximation is the closed form's limit,
// term by term, where the dimensions of the tensors without X grow.
#include "ridge/roofline/threshold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "ridge/roofline/sizes/crossings.h"

namespace ridge {
namespace {

using Names = std::set<std::string>;

struct Balance {
  Polynomial f1, f0, m1, m0;  // in the dimensions other than X, without common factor
};

struct Question {
  const Balance& balance;
  Roofs roofs;
  const Bindings& dims;
  std::span<const std::string> order;  // of the dimensions on which the counts hang
  std::string r;                       // what the ridge is called
};

std::optional<Balance> balance_of(const Ratio& ratio, const std::string& dim) {
  auto f = ratio.flops.collect(dim), m = ratio.bytes.collect(dim);
  if (f.size() > 2 || m.size() > 2) return std::nullopt;
  // X cancelled out: whatever holds, holds for every X, as if both grew with it.
  if (f.size() == 1 && m.size() == 1) return Balance{f[0], 0, m[0], 0};
  f.resize(2);
  m.resize(2);
  return Balance{f[1], f[0], m[1], m[0]};
}

// What is left of sum/one (one: a single term) where the dimensions of `growing` go to infinity. None: it grows itself,
// or hangs on a dimension without value.
std::optional<long double> limit(const Polynomial& sum, const Polynomial& one, const Names& growing,
                                 const Bindings& dims) {
  long double total = 0;
  for (const auto& [monomial, coefficient] : sum.terms()) {
    std::map<std::string, int> powers(monomial.begin(), monomial.end());
    for (const auto& [symbol, power] : one.terms().begin()->first) powers[symbol] -= power;
    const auto grows = [&](const auto& p) { return p.second > 0 && growing.contains(p.first); };
    const auto vanishes = [&](const auto& p) { return p.second < 0 && growing.contains(p.first); };
    if (std::any_of(powers.begin(), powers.end(), grows)) return std::nullopt;
    if (std::any_of(powers.begin(), powers.end(), vanishes)) continue;
    long double term = coefficient.real() / one.terms().begin()->second.real();
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

// "r*(D + F)", "2*r*D": the ridge times a sum, its number in front.
std::string ridge_times(const std::string& r, const Polynomial& sum, std::span<const std::string> order) {
  std::int64_t number = 0;
  for (const auto& term : sum.terms()) number = std::gcd(number, term.second.num());
  const Polynomial rest = sum * Rational(1, std::max<std::int64_t>(number, 1));
  const std::string front = number == 1 ? r : fmt::format("{}*{}", number, r);
  if (rest == Polynomial(1)) return front;
  return rest.terms().size() == 1 ? fmt::format("{}*{}", front, rest.text(order))
                                  : fmt::format("{}*({})", front, rest.text(order));
}

// "f - r*m" or "r*m - f"; "r*m" where f is 0.
std::string difference(const std::string& ridge_part, const Polynomial& f, bool f_first,
                       std::span<const std::string> order) {
  if (f_first) return f.text(order) + " - " + ridge_part;
  if (f.zero()) return ridge_part;
  const std::string text = f.text(order);
  return fmt::format("{} - {}", ridge_part, f.terms().size() > 1 ? "(" + text + ")" : text);
}

// The ridge is `r` unless a dimension is called so.
std::string ridge_symbol(std::span<const std::string> order) {
  std::string r = "r";
  while (std::find(order.begin(), order.end(), r) != order.end()) r = r == "r" ? "ridge" : r + "_";
  return r;
}

std::string closed_form(const Question& q, Relation relation) {
  const Balance& b = q.balance;
  const std::string& r = q.r;
  const std::string m0 = ridge_times(r, b.m0, q.order), m1 = ridge_times(r, b.m1, q.order);
  if (relation == Relation::at_most)
    return fmt::format("({})/({})", b.m0.zero() ? b.f0.text(q.order) : difference(m0, b.f0, true, q.order),
                       difference(m1, b.f1, false, q.order));
  const std::string above = b.f0.zero() ? m0 : fmt::format("({})", difference(m0, b.f0, false, q.order));
  if (b.m1.zero() && b.f1 == Polynomial(1)) return above;
  return fmt::format("{}/({})", above, b.m1.zero() ? b.f1.text(q.order) : difference(m1, b.f1, true, q.order));
}

void approximate(const Question& q, Threshold& threshold) {
  const Balance& b = q.balance;
  if (!b.f0.zero() || b.f1.terms().size() != 1) return;
  const std::vector<std::string> symbols = b.m0.symbols();
  const Names growing(symbols.begin(), symbols.end());
  const auto a1 = limit(b.m1, b.f1, growing, q.dims), a0 = limit(b.m0, b.f1, growing, q.dims);
  const long double r = static_cast<long double>(q.roofs.peak) / q.roofs.bandwidth;
  if (!a1 || !a0 || *a0 <= 0) return;
  const long double left = 1 - r * *a1;
  if (left < 1e-15L) return;  // below that no digit of the difference is to be trusted
  threshold.approx = static_cast<double>(r * *a0 / left);
  std::string others;
  for (const std::string& dim : q.order)
    if (growing.contains(dim)) others += (others.empty() ? "" : ", ") + dim;
  if (!others.empty()) threshold.assuming = threshold.dim + " << " + others;
}

struct Lines {
  Line flops, bytes;
};

// None: a dimension has no value, or a number leaves 2^63 or is below 0.
std::optional<Lines> lines_of(const Balance& b, const Bindings& dims) {
  const auto f1 = b.f1.evaluate(dims), f0 = b.f0.evaluate(dims), m1 = b.m1.evaluate(dims), m0 = b.m0.evaluate(dims);
  if (!f1 || !f0 || !m1 || !m0) return std::nullopt;
  if (std::min({*f1, *f0, *m1, *m0}) < 0) return std::nullopt;
  return Lines{{*f1, *f0}, {*m1, *m0}};
}

// The comparison is linear in X, so it changes at most once between 1 and 2^63 - 1: bisection finds where, nearly
// always between two whole numbers next to the boundary.
void solve(const Question& q, const Lines& lines, Threshold& threshold) {
  const auto bound = [&](std::int64_t x) { return compute_bound(lines.flops, lines.bytes, x, q.roofs); };
  std::int64_t low = 1, high = INT64_MAX;
  const bool at_first = bound(low), at_last = bound(high);
  if (at_first == at_last) {
    threshold.relation = at_first ? Relation::always : Relation::never;
    return;
  }
  const auto probe = [&](std::int64_t x) { (bound(x) == at_first ? low : high) = x; };
  const long double r = static_cast<long double>(q.roofs.peak) / q.roofs.bandwidth;
  const long double boundary =
      (r * lines.bytes.constant - lines.flops.constant) / (lines.flops.slope - r * lines.bytes.slope);
  for (const long double near : {boundary - 2, boundary + 2})
    if (near > low && near < high) probe(static_cast<std::int64_t>(near));
  while (high - low > 1) probe(low + (high - low) / 2);
  threshold.relation = at_first ? Relation::at_most : Relation::at_least;
  threshold.value = at_first ? low : high;
  // Where the denominator almost vanishes the division is only as good as r; the whole number is exact and holds it.
  threshold.value_real = static_cast<double>(std::isfinite(boundary) ? std::clamp<long double>(boundary, low, high)
                                                                     : static_cast<long double>(high));
  threshold.exact = closed_form(q, threshold.relation);
  approximate(q, threshold);
}

// Does one roof stay above the other whatever the dimensions without value are? m1/f1 only falls as they grow; if even
// its limit is above 1/r, X never gets there.
bool ruled_out(const Question& q, const Names& unknown) {
  if (!q.balance.f0.zero() || q.balance.f1.terms().size() != 1) return false;
  const auto least = limit(q.balance.m1, q.balance.f1, unknown, q.dims);
  const long double r = static_cast<long double>(q.roofs.peak) / q.roofs.bandwidth;
  return least && r * *least >= 1;
}

// f > r*m where both are numbers; none: they hang on sizes.
std::optional<bool> exceeds(const Polynomial& f, const Polynomial& m, double r) {
  const Ratio c = reduced(f, m);
  const auto left = c.flops.constant(), right = c.bytes.constant();
  if (!left || !right || right->zero()) return std::nullopt;
  return left->real() > r * right->real();
}

// Whether the condition of a formula holds at any sizes; none: it has none, or sizes decide.
std::optional<bool> decided(const Question& q, Relation relation) {
  const Balance& b = q.balance;
  const double r = q.roofs.ridge();
  if (relation == Relation::at_least) return exceeds(b.f1, b.m1, r);
  if (!b.m0.zero()) return exceeds(b.f0, b.m0, r);
  const auto stays_above = exceeds(b.f1, b.m1, r);
  return stays_above ? std::optional(!*stays_above) : std::nullopt;
}

// Some other dimension has no value: the formula, and the condition under which it holds. False: nothing can be said,
// because X cancels out and the others decide.
bool solve_symbolically(const Question& q, Threshold& threshold) {
  const Balance& b = q.balance;
  Names unknown;
  for (const Polynomial* p : {&b.f1, &b.f0, &b.m1, &b.m0})
    for (const std::string& symbol : p->symbols())
      if (!q.dims.contains(symbol)) unknown.insert(symbol);
  if (unknown.empty()) return false;
  if (ruled_out(q, unknown)) {
    threshold.relation = Relation::never;
    return true;
  }
  if (b.m0.zero() && (b.f0.zero() || b.m1.zero())) return false;
  if (b.f1.zero() && b.m1.zero()) return false;
  const std::string& r = q.r;
  const auto greater = [&](const Polynomial& f, const Polynomial& m, bool f_is) {
    const Ratio c = reduced(f, m);
    const std::string left = c.flops.text(q.order), right = ridge_times(r, c.bytes, q.order);
    return f_is ? fmt::format("{} > {}", left, right) : fmt::format("{} > {}", right, left);
  };
  if (b.f1.zero() || b.m0.zero()) {  // the second roof overtakes as X grows, if it does: else the first is always above
    threshold.relation = Relation::at_most;
    if (!b.m0.zero())
      threshold.condition = greater(b.f0, b.m0, true);
    else if (!b.f1.zero())
      threshold.condition = greater(b.f1, b.m1, false);
  } else {
    threshold.relation = Relation::at_least;
    if (!b.m1.zero()) threshold.condition = greater(b.f1, b.m1, true);
    approximate(q, threshold);
  }
  const auto holds = decided(q, threshold.relation);
  if (holds) threshold.condition.clear();
  if (holds && !*holds && threshold.relation == Relation::at_least && !b.f0.zero()) {  // above at first, if at all
    threshold.relation = Relation::at_most;
    threshold.condition = greater(b.f0, b.m0, true);
    threshold.approx.reset();
    threshold.assuming.clear();
  } else if (holds && !*holds) {  // the first roof stays above, or the second one does
    threshold.relation = b.m0.zero() ? Relation::always : Relation::never;
    threshold.approx.reset();
    threshold.assuming.clear();
    return true;
  }
  threshold.exact = closed_form(q, threshold.relation);
  return true;
}

// Whether a number of pairs that hangs on the dimension stands in one of the counts.
bool counts_pairs(const std::string& dim, const Names& symbols, const Ways& ways) {
  return std::any_of(ways.counted.begin(), ways.counted.end(), [&](const auto& counted) {
    return symbols.contains(counted.first) &&
           std::find(counted.second.begin(), counted.second.end(), dim) != counted.second.end();
  });
}

Names symbols_of(const Meeting& meeting) {
  std::vector<std::string> symbols = meeting.above.symbols();
  for (std::string& symbol : meeting.below.symbols()) symbols.push_back(std::move(symbol));
  return {symbols.begin(), symbols.end()};
}

// The names, in `order`, of the dimensions on which the counts hang, directly or through what follows.
std::vector<std::string> varied(const Names& here, std::span<const std::string> order, const Ways& ways) {
  const Followers& followers = ways.followers;
  std::vector<std::string> out;
  for (const std::string& dim : order) {
    if (followers.empty() && ways.counted.empty() && out.size() == here.size()) break;
    const auto found = followers.find(dim);
    const auto is_here = [&](const auto& size) { return here.contains(size.first); };
    const bool follows =
        found != followers.end() && std::any_of(found->second.sizes.begin(), found->second.sizes.end(), is_here);
    if (here.contains(dim) || follows || counts_pairs(dim, here, ways)) out.push_back(dim);
  }
  return out;
}

// FLOPs and bytes over their common factor, with what follows the dimension written out. None: it cannot be.
std::optional<Ratio> ratio_in(const std::string& dim, const Meeting& meeting, const Followers& followers) {
  const Following& following = followers.at(dim);
  const auto above = written_out(meeting.above, following), below = written_out(meeting.below, following);
  if (!above || !below || !above->exact() || !below->exact()) return std::nullopt;
  return reduced(*above, *below);
}

// A count as a polynomial in one dimension, the others at their values: its coefficients by power. None: it is not one.
std::optional<std::vector<double>> in_powers(const Polynomial& count, const std::string& dim, const Bindings& dims,
                                             const Ways& ways) {
  std::optional<Polynomial> written = count;
  if (const auto follows = ways.followers.find(dim); follows != ways.followers.end())
    written = written_out(count, follows->second);
  const std::vector<std::string> symbols = count.symbols();
  if (!written || counts_pairs(dim, {symbols.begin(), symbols.end()}, ways)) return std::nullopt;
  std::vector<double> out;
  for (const Polynomial& coefficient : written->collect(dim)) {
    if (!coefficient.exact() || !coefficient.all_in(dims)) return std::nullopt;
    out.push_back(coefficient.real({dims.begin(), dims.end()}));
  }
  return out;
}

double value_of(const std::vector<double>& powers, double x) {
  double out = 0;
  for (std::size_t i = powers.size(); i-- > 0;) out = out * x + powers[i];
  return out;
}

// T_above over T_below where a dimension has another value.
std::function<double(std::int64_t)> times_ratio(const Meeting& meeting, const std::string& dim, const Bindings& dims,
                                                const Ways& ways) {
  const double rates = meeting.roofs.bandwidth / meeting.roofs.peak;
  const auto above = in_powers(meeting.above, dim, dims, ways), below = in_powers(meeting.below, dim, dims, ways);
  if (above && below)
    return [=](std::int64_t value) {
      const auto x = static_cast<double>(value);
      return value_of(*above, x) / value_of(*below, x) * rates;
    };
  return [=, rebind = ways.rebind](std::int64_t value) {
    const auto there = rebind(dim, value);
    if (!there) return static_cast<double>(NAN);
    const std::map<std::string, double> sizes(there->begin(), there->end());
    return meeting.above.real(sizes) / meeting.below.real(sizes) * rates;
  };
}

Comparison comparison(const Meeting& meeting, const std::string& dim, const Bindings& dims, const Ways& ways) {
  const auto ratio = times_ratio(meeting, dim, dims, ways);
  const Ratio counts = reduced(meeting.above, meeting.below);
  const auto above = [=, rebind = ways.rebind](std::int64_t value) {
    const double rough = ratio(value);
    if (std::abs(rough - 1) > 1e-9) return rough > 1;
    const auto there = rebind(dim, value);
    const auto exact = there ? compute_bound(counts, *there, meeting.roofs) : Result<bool>(false);
    return there && exact ? *exact : rough >= 1;
  };
  return {ratio, above};
}

// By search; several where there are several crossings. Empty: some dimension has no value.
std::vector<Threshold> searched(const Meeting& meeting, const Threshold& begun, const Bindings& dims,
                                const Ways& ways) {
  Bindings known = dims;
  known[begun.dim] = 1;
  if (!ways.rebind || !meeting.above.all_in(known) || !meeting.below.all_in(known)) return {};
  if (ways.searches && --*ways.searches < 0) return {};
  const auto found = crossings(comparison(meeting, begun.dim, dims, ways));
  if (!found) return {};
  std::vector<Threshold> out;
  for (const Crossing& crossing : found->all) {
    out.push_back(begun);
    out.back().relation = crossing.upwards ? Relation::at_least : Relation::at_most;
    out.back().value = crossing.value;
    out.back().value_real = static_cast<double>(crossing.value);
    out.back().numerical = true;
  }
  if (!out.empty()) return out;
  out.push_back(begun);
  out.back().relation = found->above_at_first ? Relation::always : Relation::never;
  out.back().numerical = true;
  return out;
}

// By its closed form. None: it has none, or no answer.
std::optional<Threshold> solved(const std::optional<Ratio>& ratio, Threshold threshold, const Meeting& meeting,
                                const Bindings& dims, std::span<const std::string> order, const std::string& r) {
  const auto balance = ratio ? balance_of(*ratio, threshold.dim) : std::nullopt;
  if (!balance) return std::nullopt;
  const Question question{*balance, meeting.roofs, dims, order, r};
  const auto lines = lines_of(*balance, dims);
  if (meeting.above.zero())
    threshold.relation = Relation::never;
  else if (lines)
    solve(question, *lines, threshold);
  else if (!solve_symbolically(question, threshold))
    return std::nullopt;
  return threshold;
}

}  // namespace

std::vector<Threshold> thresholds(const Meeting& meeting, const Bindings& dims, std::span<const std::string> order,
                                  const Ways& ways, std::span<const std::string> left_out) {
  std::vector<Threshold> all;
  if (!meeting.above.exact() || !meeting.below.exact()) return all;
  const Ratio alone = reduced(meeting.above, meeting.below);
  const Names symbols = symbols_of(meeting);
  const std::vector<std::string> here = varied(symbols, order, ways);
  const std::string r = ridge_symbol(order);
  for (const std::string& dim : here) {
    if (std::find(left_out.begin(), left_out.end(), dim) != left_out.end()) continue;
    const Threshold begun{.dim = dim, .roofs = meeting.names, .ratio = meeting.roofs.ridge()};
    std::optional<Threshold> closed;
    if (!counts_pairs(dim, symbols, ways))
      closed = solved(ways.followers.contains(dim) ? ratio_in(dim, meeting, ways.followers) : alone, begun, meeting,
                      dims, here, r);
    if (closed) all.push_back(*std::move(closed));
    if (closed) continue;
    for (Threshold& found : searched(meeting, begun, dims, ways)) all.push_back(std::move(found));
  }
  return all;
}

}  // namespace ridge
