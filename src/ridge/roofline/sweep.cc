#include "ridge/roofline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "ridge/base/cores.h"
#include "ridge/roofline/balance.h"

namespace ridge {
namespace {

constexpr double beyond = 0x1p63;

// A polynomial as a list of products: whole coefficients over one denominator, dimensions as indices.
class FlatCount {
 public:
  FlatCount(const Polynomial& polynomial, const std::vector<Range>& ranges) {
    for (const auto& term : polynomial.terms()) denominator_ = std::lcm(denominator_, term.second.den());
    for (const auto& [monomial, coefficient] : polynomial.terms()) {
      Term term{coefficient.num() * (denominator_ / coefficient.den()), {}};
      for (const auto& [symbol, power] : monomial) {
        const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) { return r.dim == symbol; });
        for (int i = 0; i < power; ++i) term.factors.push_back(static_cast<int>(range - ranges.begin()));
      }
      terms_.push_back(std::move(term));
    }
  }

  std::int64_t denominator() const { return denominator_; }

  // The value times the denominator; -1: it leaves 2^63. Whole arithmetic wraps, and what a double says of the size
  // tells whether it did.
  std::int64_t scaled(const std::int64_t* sizes) const {
    std::uint64_t exact = 0;
    double rough = 0, largest = 0;
    for (const Term& term : terms_) {
      std::uint64_t product = static_cast<std::uint64_t>(term.coefficient);
      double size = static_cast<double>(term.coefficient);
      for (const int factor : term.factors) {
        product *= static_cast<std::uint64_t>(sizes[factor]);
        size *= static_cast<double>(sizes[factor]);
      }
      exact += product;
      rough += size;
      largest = std::max(largest, std::abs(size));
    }
    if (std::max(largest, rough) >= beyond * (1 - 1e-12)) return -1;
    return static_cast<std::int64_t>(exact);
  }

 private:
  struct Term {
    std::int64_t coefficient;
    std::vector<int> factors;
  };
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
};

struct FlatOp {
  FlatCount flops, bytes;
  double peak = 0;  // 0: the machine has none
};

struct FlatProgram {
  std::vector<FlatOp> ops;
  FlatCount bytes;  // of all, rounded up once
};

bool compute_takes_longer(double math, double memory, const FlatOp& op, std::int64_t flops, std::int64_t bytes,
                          double bandwidth) {
  if (std::abs(math - memory) > 1e-9 * memory) return math > memory;
  const std::int64_t scale = op.bytes.denominator();  // bytes are a count of 1/scale
  std::int64_t scaled_flops = 0;
  if (__builtin_mul_overflow(flops, scale, &scaled_flops)) return math >= memory;
  return compute_bound(Line{0, scaled_flops}, Line{0, bytes}, 1, {op.peak, bandwidth});
}

SweepPoint evaluate(const FlatProgram& program, double bandwidth, const std::int64_t* sizes) {
  SweepPoint point;
  const std::int64_t all = program.bytes.scaled(sizes), parts = program.bytes.denominator();
  if (all < 0) return point;
  std::int64_t flops = 0;
  double lower = 0, upper = 0, by_compute = 0;
  bool timed = true;
  for (const FlatOp& op : program.ops) {
    const std::int64_t f = op.flops.scaled(sizes), b = op.bytes.scaled(sizes), scale = op.bytes.denominator();
    if (f < 0 || b < 0) return point;
    if (__builtin_add_overflow(flops, f, &flops)) return point;
    timed = timed && op.peak > 0;
    if (!timed) continue;
    const double math = static_cast<double>(f) / op.peak;
    const double memory = static_cast<double>(b) / static_cast<double>(scale) / bandwidth;
    lower += std::max(math, memory);
    upper += math + memory;
    if (compute_takes_longer(math, memory, op, f, b, bandwidth)) by_compute += std::max(math, memory);
  }
  point.flops = flops;
  point.bytes = all / parts + (all % parts != 0);
  if (!timed) return point;
  point.time_lower_s = lower;
  point.time_upper_s = upper;
  point.limiter = by_compute >= lower - by_compute ? Limiter::compute : Limiter::memory;
  return point;
}

// Dimensions that no range gives are replaced by their defaults, which may hang on others.
Result<Polynomial> in_ranges(Polynomial count, const Program& program, const std::vector<Range>& ranges) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string& symbol : count.symbols()) {
      if (std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return r.dim == symbol; })) continue;
      const auto dim =
          std::find_if(program.dims.begin(), program.dims.end(), [&](const Dimension& d) { return d.name == symbol; });
      if (dim == program.dims.end() || !dim->value)
        return usage_error(fmt::format("dimension '{}' has no value", symbol),
                           fmt::format("give it one or several: -d {0}=256, -d {0}=1..4096:*2", symbol));
      count = count.substitute(symbol, *dim->value);
      again = true;
    }
  }
  if (count.exact()) return count;
  return input_error(fmt::format("expected a count below 2^63, found {}", count.text()), "use smaller sizes");
}

Result<FlatProgram> compile(const Program& program, const Explanation& e, const std::vector<Range>& ranges) {
  std::vector<FlatOp> ops;
  for (const Prediction& p : e.ops) {
    const auto flops = in_ranges(p.work.flops, program, ranges), bytes = in_ranges(p.work.bytes(), program, ranges);
    if (!flops) return flops.error();
    if (!bytes) return bytes.error();
    ops.push_back({FlatCount(*flops, ranges), FlatCount(*bytes, ranges), p.peak ? p.peak->rate.value : 0});
  }
  const auto bytes = in_ranges(e.total.work.bytes(), program, ranges);
  if (!bytes) return bytes.error();
  return FlatProgram{std::move(ops), FlatCount(*bytes, ranges)};
}

// A part of the points; every part begins where the last range begins.
void fill(const FlatProgram& program, double bandwidth, const std::vector<Range>& ranges, std::size_t first,
          std::span<SweepPoint> points) {
  const std::size_t n = ranges.size(), fastest = ranges.empty() ? 1 : ranges.back().values.size();
  std::vector<std::int64_t> sizes(n);
  std::vector<std::size_t> at(n);
  std::size_t rest = first;
  for (std::size_t i = n; i-- > 0; rest /= ranges[i].values.size()) {
    at[i] = rest % ranges[i].values.size();
    sizes[i] = ranges[i].values[at[i]];
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = evaluate(program, bandwidth, sizes.data());
    if (k > 0 && (first + k) % fastest != 0)
      points[k].crossed =
          points[k].time_lower_s >= 0 && points[k - 1].time_lower_s >= 0 && points[k].limiter != points[k - 1].limiter;
    for (std::size_t i = n; i-- > 0;) {
      at[i] = at[i] + 1 == ranges[i].values.size() ? 0 : at[i] + 1;
      sizes[i] = ranges[i].values[at[i]];
      if (at[i] != 0) break;
    }
  }
}

}  // namespace

std::int64_t Sweep::value(std::size_t point, std::size_t range) const {
  for (std::size_t i = ranges.size() - 1; i > range; --i) point /= ranges[i].values.size();
  return ranges[range].values[point % ranges[range].values.size()];
}

Result<std::size_t> combinations(const std::vector<Range>& ranges) {
  std::size_t count = 1;
  std::set<std::string> seen;
  for (const Range& range : ranges) {
    if (!seen.insert(range.dim).second)
      return usage_error(fmt::format("dimension '{}' is given twice", range.dim), "give each dimension once");
    count *= range.values.size();
    if (count > max_sweep_points)
      return usage_error(fmt::format("expected at most {} points, found more", max_sweep_points),
                         "take larger steps, or fewer dimensions at a time");
  }
  return count;
}

Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::function<void(double)>& done) {
  const auto count = combinations(ranges);
  if (!count) return count.error();
  Bindings first;
  for (const Range& range : ranges) first[range.dim] = range.values.front();
  if (const auto bound = program.bind(first); !bound) return bound.error();
  const auto explanation = explain(program, machine, {});
  if (!explanation) return explanation.error();
  const auto flat = compile(program, *explanation, ranges);
  if (!flat) return flat.error();
  const double bandwidth = *explanation->total.bandwidth;
  SweepLine line{.machine = machine.name, .dtype = {}, .points = std::vector<SweepPoint>(*count)};
  // Blocks are whole runs of the last range, about 2^15 points, taken by whichever thread is free.
  const std::size_t fastest = ranges.empty() ? 1 : ranges.back().values.size();
  const std::size_t block = std::max<std::size_t>(1, 32768 / fastest) * fastest;
  std::atomic<std::size_t> next = 0;
  const auto work = [&](bool tells) {
    for (std::size_t from = next.fetch_add(block); from < *count; from = next.fetch_add(block)) {
      fill(*flat, bandwidth, ranges, from, std::span(line.points).subspan(from, std::min(block, *count - from)));
      if (tells && done) done(static_cast<double>(std::min(*count, from + block)) / static_cast<double>(*count));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_cores() && *count > block; ++i) others.emplace_back(work, false);
    work(true);
  }
  return line;
}

}  // namespace ridge
