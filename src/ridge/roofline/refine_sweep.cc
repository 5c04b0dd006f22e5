#include "ridge/roofline/refine_sweep.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

constexpr int points_per_curve = 96;

class SweepRefiner {
 public:
  SweepRefiner(const Program& program, const Machine& machine, const Sweep& sweep, const SweepLine& line)
      : program_(program), machine_(machine), sweep_(sweep), line_(line) {}

  Bindings sizes_at(std::size_t point) const {
    Bindings out;
    for (std::size_t i = 0; i < sweep_.ranges.size(); ++i) out[sweep_.ranges[i].dim] = sweep_.size_at(point, i);
    return out;
  }

  // Returns nullopt if the program cannot be counted or timed at this size.
  std::optional<Explanation> explain_at(Bindings sizes, const std::string& dim, std::int64_t size) const {
    sizes[dim] = size;
    auto found = explain(program_, machine_, sizes, line_.split, Thresholds::skipped);
    if (!found || !found->total.limiter || !found->total.time_lower_s) return std::nullopt;
    return *std::move(found);
  }

  // Bisects between `low`, where the limiter is `before`, and `high`, where it is another one.
  SweepChange find_change(std::size_t point, const std::string& dim, std::int64_t low, std::int64_t high,
                          Limiter before) const {
    const Bindings sizes = sizes_at(point);
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto explanation = explain_at(sizes, dim, middle);
      if (!explanation) break;  // Chips do not divide this size: keep the requested one
      (*explanation->total.limiter == before ? low : high) = middle;
    }
    const auto explanation = explain_at(sizes, dim, high);
    SweepChange out{.point = point, .first = high, .from = before, .to = before};
    if (!explanation) return out;
    out.to = *explanation->total.limiter;
    out.flops_per_s = attainable_rate(explanation->total);
    return out;
  }

  static double attainable_rate(const Prediction& p) {
    const double seconds = p.time_lower_s.value_or(0);
    return seconds > 0 && p.flops ? static_cast<double>(*p.flops) / seconds : 0;
  }

 private:
  const Program& program_;
  const Machine& machine_;
  const Sweep& sweep_;
  const SweepLine& line_;
};

// Returns sizes from the least to the greatest value, evenly spaced on a logarithmic scale, and the requested values if
// they are few.
std::vector<std::int64_t> sizes_between(const DimensionValues& range) {
  const auto [low, high] = std::minmax_element(range.values.begin(), range.values.end());
  std::vector<std::int64_t> out;
  const double ratio = static_cast<double>(*high) / static_cast<double>(*low);
  for (int i = 0; i <= points_per_curve; ++i)
    out.push_back(std::llround(static_cast<double>(*low) * std::pow(ratio, static_cast<double>(i) / points_per_curve)));
  if (range.values.size() <= points_per_curve) out.insert(out.end(), range.values.begin(), range.values.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Adds the point at which the curve bends, where the limiter changes between two sizes.
void add_change(const SweepRefiner& refiner, const std::string& dim, std::int64_t low, std::int64_t high,
                Limiter before, SweepCurve& curve) {
  const SweepChange change = refiner.find_change(curve.first_point, dim, low, high, before);
  curve.changes.push_back(change);
  if (change.first < high) curve.points.push_back({change.first, change.flops_per_s});
}

SweepCurve trace_curve(const SweepRefiner& refiner, const DimensionValues& range, std::size_t point) {
  SweepCurve curve{.first_point = point, .points = {}};
  const Bindings sizes = refiner.sizes_at(point);
  std::optional<Limiter> before;
  std::int64_t low = 0;
  for (const std::int64_t size : sizes_between(range)) {
    const auto explanation = refiner.explain_at(sizes, range.dim, size);
    if (!explanation) continue;
    if (before && *before != *explanation->total.limiter) add_change(refiner, range.dim, low, size, *before, curve);
    curve.points.push_back({size, SweepRefiner::attainable_rate(explanation->total)});
    if (explanation->fused) curve.fused.push_back({size, SweepRefiner::attainable_rate(*explanation->fused)});
    before = explanation->total.limiter;
    low = size;
  }
  return curve;
}

// Builds the curve from the points alone, for programs that are too large to evaluate between them.
SweepCurve curve_from_points(const Sweep& sweep, const SweepLine& line, std::size_t along, std::size_t first,
                             std::size_t stride) {
  SweepCurve curve{.first_point = first, .points = {}};
  const SweepPoint* before = nullptr;
  for (std::size_t i = 0; i < sweep.ranges[along].values.size(); ++i) {
    const SweepPoint& p = line.points[first + i * stride];
    if (p.time_lower_s <= 0 || p.flops <= 0) {
      before = nullptr;
      continue;
    }
    const std::int64_t size = sweep.ranges[along].values[i];
    const double rate = static_cast<double>(p.flops) / p.time_lower_s;
    curve.points.push_back({size, rate});
    if (before && before->limiter != p.limiter)
      curve.changes.push_back({first + i * stride, size, before->limiter, p.limiter, rate});
    before = &p;
  }
  return curve;
}

void add_changes(const SweepRefiner& refiner, const Sweep& sweep, SweepLine& line) {
  if (sweep.ranges.empty()) return;
  const std::size_t last = sweep.ranges.size() - 1;
  for (std::size_t i = 0; i < line.points.size() && line.changes.size() < max_sweep_changes; ++i) {
    if (!line.points[i].limiter_changed) continue;
    const std::int64_t low = sweep.size_at(i - 1, last), high = sweep.size_at(i, last);
    line.changes.push_back(refiner.find_change(i, sweep.ranges[last].dim, low, high, line.points[i - 1].limiter));
  }
}

}  // namespace

std::size_t longest_range(const std::vector<DimensionValues>& ranges) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].values.size() > ranges[longest].values.size()) longest = i;
  return longest;
}

void refine_sweep(const Program& program, const Machine& machine, const Sweep& sweep, bool with_curves,
                  SweepLine& line) {
  if (sweep.ranges.empty()) return;
  const bool uses_explain = program.statements.size() <= max_refined_statements;
  const SweepRefiner refiner(program, machine, sweep, line);
  if (uses_explain) add_changes(refiner, sweep, line);
  if (!with_curves) return;
  const std::size_t along = longest_range(sweep.ranges);
  std::size_t stride = 1;
  for (std::size_t i = along + 1; i < sweep.ranges.size(); ++i) stride *= sweep.ranges[i].values.size();
  const std::size_t length = sweep.ranges[along].values.size();
  for (std::size_t first = 0; first < line.points.size() && line.curves.size() < max_sweep_curves; ++first) {
    if (first / stride % length != 0) continue;
    line.curves.push_back(uses_explain ? trace_curve(refiner, sweep.ranges[along], first)
                                       : curve_from_points(sweep, line, along, first, stride));
  }
}

}  // namespace ridge
