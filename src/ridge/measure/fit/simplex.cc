#include "ridge/measure/fit/simplex.h"

#include <algorithm>

namespace ridge {
namespace {

struct Corner {
  std::vector<double> at;
  double value = 0;
};

// Returns center + times * (center - worst).
std::vector<double> along(const std::vector<double>& center, const std::vector<double>& far, double times) {
  std::vector<double> out(center.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = center[i] + times * (center[i] - far[i]);
  return out;
}

std::vector<double> center_of(const std::vector<Corner>& corners) {
  std::vector<double> out(corners.front().at.size());
  for (std::size_t c = 0; c + 1 < corners.size(); ++c)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += corners[c].at[i] / static_cast<double>(corners.size() - 1);
  return out;
}

}  // namespace

std::vector<double> least_by_simplex(const std::vector<double>& begin, double size, int steps,
                                     const std::function<double(const std::vector<double>&)>& value) {
  std::vector<Corner> corners{{begin, value(begin)}};
  for (std::size_t i = 0; i < begin.size(); ++i) {
    std::vector<double> at = begin;
    at[i] += size;
    corners.push_back({at, value(at)});
  }
  const auto lower = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  for (int step = 0; step < steps; ++step) {
    std::stable_sort(corners.begin(), corners.end(), lower);
    const std::vector<double> center = center_of(corners), last = corners.back().at;
    const auto tried = [&](double times) {
      const std::vector<double> at = along(center, last, times);
      return Corner{at, value(at)};
    };
    Corner next = tried(1);
    if (next.value < corners.front().value) {
      const Corner farther = tried(2);
      if (farther.value < next.value) next = farther;
    } else if (next.value >= corners[corners.size() - 2].value) {
      next = next.value < corners.back().value ? tried(0.5) : tried(-0.5);
    }
    if (next.value < corners.back().value) {
      corners.back() = next;
      continue;
    }
    for (std::size_t c = 1; c < corners.size(); ++c) {
      for (std::size_t i = 0; i < begin.size(); ++i) corners[c].at[i] = (corners[c].at[i] + corners.front().at[i]) / 2;
      corners[c].value = value(corners[c].at);
    }
  }
  return std::min_element(corners.begin(), corners.end(), lower)->at;
}

}  // namespace ridge
