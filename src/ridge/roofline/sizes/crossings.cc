#include "ridge/roofline/sizes/crossings.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

struct Sample {
  std::int64_t size;
  double height;  // log(ratio); 0: equal
};

// All sizes up to 64, then in steps of 3 %, which follow any product of a few powers of a size.
std::vector<Sample> samples(const Comparison& comparison) {
  constexpr double step = 1.03;
  std::vector<Sample> out;
  for (std::int64_t size = 1; size < std::int64_t{1} << 62;) {
    const double ratio = comparison.ratio(size);
    if (!std::isnan(ratio)) out.push_back({size, std::log(ratio)});
    size = size < 64 ? size + 1 : static_cast<std::int64_t>(static_cast<double>(size) * step);
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

// Sizes at which to ask exactly: the samples, and where the curve turns back just before it touches.
std::vector<std::int64_t> asked(const Comparison& comparison, const std::vector<Sample>& all) {
  constexpr double near = 0.1;
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    out.push_back(all[i].size);
    if (i == 0 || i + 1 == all.size() || all[i + 1].size - all[i - 1].size < 3) continue;
    const double here = std::abs(all[i].height);
    const bool valley = here <= std::abs(all[i - 1].height) && here <= std::abs(all[i + 1].height);
    if (valley && here < near) out.push_back(nearest(comparison, all[i - 1].size, all[i + 1].size));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

std::optional<Crossings> crossings(const Comparison& comparison) {
  const std::vector<std::int64_t> sizes = asked(comparison, samples(comparison));
  if (sizes.size() < 2) return std::nullopt;
  Crossings out{comparison.above(sizes.front()), {}};
  bool before = out.above_at_first;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const bool here = comparison.above(sizes[i]);
    if (here == before) continue;
    std::int64_t low = sizes[i - 1], high = sizes[i];
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
