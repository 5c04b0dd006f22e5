#include "ridge/roofline/sizes/crossings.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

struct RatioSample {
  std::int64_t size;
  double log_ratio;  // Equals log(ratio); 0 if the times are equal
};

// Samples all sizes up to 16, then in steps of 8 %, which resolve any sum of a few powers of a size, and beyond the
// sizes of real programs in powers of 2.
std::vector<RatioSample> sample_ratio(const TimeComparison& comparison) {
  constexpr double step = 1.08;
  constexpr std::int64_t dense_below = std::int64_t{1} << 32;
  std::vector<RatioSample> out;
  for (std::int64_t size = 1; size < std::int64_t{1} << 62;) {
    const double ratio = comparison.ratio(size);
    if (!std::isnan(ratio)) out.push_back({size, std::log(ratio)});
    if (size < 16)
      ++size;
    else
      size = size < dense_below ? static_cast<std::int64_t>(static_cast<double>(size) * step) : 2 * size;
  }
  return out;
}

// Returns the last size from `low` for which the condition holds, or the first up to `high` if it does not hold at
// `low`.
template <class Condition> std::int64_t bisect(std::int64_t low, std::int64_t high, const Condition& condition) {
  const bool before = condition(low);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (condition(middle) == before ? low : high) = middle;
  }
  return before ? low : high;
}

// Returns the size between two at which |log_ratio| is least, if it has one minimum there.
std::int64_t find_closest_times(const TimeComparison& comparison, std::int64_t low, std::int64_t high) {
  const auto distance = [&](std::int64_t size) { return std::abs(std::log(comparison.ratio(size))); };
  return bisect(low, high, [&](std::int64_t size) { return distance(size) <= distance(size + 1); });
}

// Adds samples where the ratio has a minimum close to 1.
std::vector<RatioSample> refine_samples(const TimeComparison& comparison) {
  constexpr double refine_below = 0.2;
  const std::vector<RatioSample> all = sample_ratio(comparison);
  std::vector<RatioSample> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    out.push_back(all[i]);
    if (i == 0 || i + 1 == all.size() || all[i + 1].size - all[i - 1].size < 3) continue;
    const double distance = std::abs(all[i].log_ratio);
    const bool valley = distance <= std::abs(all[i - 1].log_ratio) && distance <= std::abs(all[i + 1].log_ratio);
    if (!valley || distance > refine_below) continue;
    const std::int64_t between = find_closest_times(comparison, all[i - 1].size, all[i + 1].size);
    out.push_back({between, std::log(comparison.ratio(between))});
  }
  const auto before = [](const RatioSample& a, const RatioSample& b) { return a.size < b.size; };
  std::sort(out.begin(), out.end(), before);
  return out;
}

// True if the first time is at least the second; compares exactly if doubles are too close.
bool is_above(const TimeComparison& comparison, const RatioSample& sample) {
  return std::abs(sample.log_ratio) > 1e-9 ? sample.log_ratio > 0 : comparison.is_above(sample.size);
}

}  // namespace

std::optional<CrossingList> find_crossings(const TimeComparison& comparison) {
  const std::vector<RatioSample> curve = refine_samples(comparison);
  if (curve.size() < 2) return std::nullopt;
  CrossingList out{is_above(comparison, curve.front()), {}};
  bool before = out.starts_above;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const bool above = is_above(comparison, curve[i]);
    if (above == before) continue;
    out.all.push_back({above, bisect(curve[i - 1].size, curve[i].size, comparison.is_above)});
    before = above;
  }
  return out;
}

}  // namespace ridge
