#include "ridge/roofline/curve.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

constexpr int places_a_curve = 96;

class Refined {
 public:
  Refined(const Program& program, const Machine& machine, const Sweep& sweep, const SweepLine& line)
      : program_(program), machine_(machine), sweep_(sweep), line_(line) {}

  Bindings sizes_of(std::size_t point) const {
    Bindings out;
    for (std::size_t i = 0; i < sweep_.ranges.size(); ++i) out[sweep_.ranges[i].dim] = sweep_.value(point, i);
    return out;
  }

  // None: it cannot be counted or timed at this size.
  std::optional<Explanation> at(Bindings sizes, const std::string& dim, std::int64_t size) const {
    sizes[dim] = size;
    auto found = explain(program_, machine_, sizes, line_.split, Thresholds::left_out);
    if (!found || !found->total.limiter || !found->total.time_lower_s) return std::nullopt;
    return *std::move(found);
  }

  // The limiter is `before`'s at `low` and another one at `high`: halves the sizes between.
  SweepChange change(std::size_t point, const std::string& dim, std::int64_t low, std::int64_t high,
                     Limiter before) const {
    const Bindings sizes = sizes_of(point);
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto there = at(sizes, dim, middle);
      if (!there) break;  // a size that chips do not divide: what was asked for stands
      (*there->total.limiter == before ? low : high) = middle;
    }
    const auto there = at(sizes, dim, high);
    SweepChange out{.point = point, .first = high, .from = before, .to = before};
    if (!there) return out;
    out.to = *there->total.limiter;
    out.flops_per_s = rate(there->total);
    return out;
  }

  static double rate(const Prediction& p) {
    const double seconds = p.time_lower_s.value_or(0);
    return seconds > 0 && p.flops ? static_cast<double>(*p.flops) / seconds : 0;
  }

 private:
  const Program& program_;
  const Machine& machine_;
  const Sweep& sweep_;
  const SweepLine& line_;
};

// Sizes from the least to the greatest value, evenly on a logarithmic scale, and every value that was asked for where
// they are few.
std::vector<std::int64_t> sizes_between(const Range& range) {
  const auto [low, high] = std::minmax_element(range.values.begin(), range.values.end());
  std::vector<std::int64_t> out;
  const double ratio = static_cast<double>(*high) / static_cast<double>(*low);
  for (int i = 0; i <= places_a_curve; ++i)
    out.push_back(std::llround(static_cast<double>(*low) * std::pow(ratio, static_cast<double>(i) / places_a_curve)));
  if (range.values.size() <= places_a_curve) out.insert(out.end(), range.values.begin(), range.values.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// A corner of the curve that lies between two places.
void add_change(const Refined& refined, const std::string& dim, std::int64_t low, std::int64_t high, Limiter before,
                SweepCurve& curve) {
  const SweepChange change = refined.change(curve.point, dim, low, high, before);
  curve.changes.push_back(change);
  if (change.first < high) curve.places.push_back({change.first, change.flops_per_s});
}

SweepCurve curve_from(const Refined& refined, const Range& range, std::size_t point) {
  SweepCurve curve{.point = point, .places = {}};
  const Bindings sizes = refined.sizes_of(point);
  std::optional<Limiter> before;
  std::int64_t low = 0;
  for (const std::int64_t size : sizes_between(range)) {
    const auto there = refined.at(sizes, range.dim, size);
    if (!there) continue;
    if (before && *before != *there->total.limiter) add_change(refined, range.dim, low, size, *before, curve);
    curve.places.push_back({size, Refined::rate(there->total)});
    if (there->fused) curve.fused.push_back({size, Refined::rate(*there->fused)});
    before = there->total.limiter;
    low = size;
  }
  return curve;
}

// The same from the points alone, of a program that is too long to be counted between them.
SweepCurve curve_of_points(const Sweep& sweep, const SweepLine& line, std::size_t along, std::size_t first,
                           std::size_t stride) {
  SweepCurve curve{.point = first, .places = {}};
  const SweepPoint* before = nullptr;
  for (std::size_t i = 0; i < sweep.ranges[along].values.size(); ++i) {
    const SweepPoint& p = line.points[first + i * stride];
    if (p.time_lower_s <= 0 || p.flops <= 0) {
      before = nullptr;
      continue;
    }
    const std::int64_t size = sweep.ranges[along].values[i];
    const double rate = static_cast<double>(p.flops) / p.time_lower_s;
    curve.places.push_back({size, rate});
    if (before && before->limiter != p.limiter)
      curve.changes.push_back({first + i * stride, size, before->limiter, p.limiter, rate});
    before = &p;
  }
  return curve;
}

void add_changes(const Refined& refined, const Sweep& sweep, SweepLine& line) {
  if (sweep.ranges.empty()) return;
  const std::size_t last = sweep.ranges.size() - 1;
  for (std::size_t i = 0; i < line.points.size() && line.changes.size() < most_sweep_changes; ++i) {
    if (!line.points[i].crossed) continue;
    const std::int64_t low = sweep.value(i - 1, last), high = sweep.value(i, last);
    line.changes.push_back(refined.change(i, sweep.ranges[last].dim, low, high, line.points[i - 1].limiter));
  }
}

}  // namespace

std::size_t longest_range(const std::vector<Range>& ranges) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].values.size() > ranges[longest].values.size()) longest = i;
  return longest;
}

void refine(const Program& program, const Machine& machine, const Sweep& sweep, bool curves, SweepLine& line) {
  if (sweep.ranges.empty()) return;
  const bool finely = program.statements.size() <= max_refined_statements;
  const Refined refined(program, machine, sweep, line);
  if (finely) add_changes(refined, sweep, line);
  if (!curves) return;
  const std::size_t along = longest_range(sweep.ranges);
  std::size_t stride = 1;
  for (std::size_t i = along + 1; i < sweep.ranges.size(); ++i) stride *= sweep.ranges[i].values.size();
  const std::size_t length = sweep.ranges[along].values.size();
  for (std::size_t first = 0; first < line.points.size() && line.curves.size() < most_sweep_curves; ++first) {
    if (first / stride % length != 0) continue;
    line.curves.push_back(finely ? curve_from(refined, sweep.ranges[along], first)
                                 : curve_of_points(sweep, line, along, first, stride));
  }
}

}  // namespace ridge
