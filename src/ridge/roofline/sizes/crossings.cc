#include "ridge/roofline/sizes/crossings.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

struct Sample {
  std::int64_t size;
  double height;  // log(ratio); 0: equal
};

// All sizes up to 16, then in steps of 8 %, which follow any sum of a few powers of a size.
std::vector<Sample> samples(const Comparison& comparison) {
  constexpr double step = 1.08;
  std::vector<Sample> out;
  for (std::int64_t size = 1; size < std::int64_t{1} << 62;) {
    const double ratio = comparison.ratio(size);
    if (!std::isnan(ratio)) out.push_back({size, std::log(ratio)});
    size = size < 16 ? size + 1 : static_cast<std::int64_t>(static_cast<double>(size) * step);
  }
  return out;
}

// The size between two at which |height| is least, where it has one valley there.
std::int64_t nearest(const Comparison& comparison, std::int64_t low, std::int64_t high) {
  const auto distance = [&](std::int64_t size) { return std::abs(std::log(comparison.ratio(size))); };
  while (high - low > 2) {
    const std::int64_t third = (high - low) / 3;
    if (distance(low + third) < distance(high - third))
      high -= third;
    else
      low += third;
  }
  return low + (high - low) / 2;
}

// The samples, and where the curve turns back just before it touches.
std::vector<Sample> followed(const Comparison& comparison) {
  constexpr double near = 0.2;
  const std::vector<Sample> all = samples(comparison);
  std::vector<Sample> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    out.push_back(all[i]);
    if (i == 0 || i + 1 == all.size() || all[i + 1].size - all[i - 1].size < 3) continue;
    const double here = std::abs(all[i].height);
    const bool valley = here <= std::abs(all[i - 1].height) && here <= std::abs(all[i + 1].height);
    if (!valley || here > near) continue;
    const std::int64_t between = nearest(comparison, all[i - 1].size, all[i + 1].size);
    out.push_back({between, std::log(comparison.ratio(between))});
  }
  const auto before = [](const Sample& a, const Sample& b) { return a.size < b.size; };
  std::sort(out.begin(), out.end(), before);
  return out;
}

// Exactly, where doubles cannot tell.
bool above(const Comparison& comparison, const Sample& sample) {
  return std::abs(sample.height) > 1e-9 ? sample.height > 0 : comparison.above(sample.size);
}

}  // namespace

std::optional<Crossings> crossings(const Comparison& comparison) {
  const std::vector<Sample> curve = followed(comparison);
  if (curve.size() < 2) return std::nullopt;
  Crossings out{above(comparison, curve.front()), {}};
  bool before = out.above_at_first;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const bool here = above(comparison, curve[i]);
    if (here == before) continue;
    std::int64_t low = curve[i - 1].size, high = curve[i].size;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (comparison.above(middle) == before ? low : high) = middle;
    }
    out.all.push_back({here, here ? high : low});
    before = here;
  }
  return out;
}

}  // namespace ridge
