#include "ridge/measure/fit/simplex.h"

#include <algorithm>

namespace ridge {
namespace {

struct SimplexVertex {
  std::vector<double> at;
  double value = 0;
};

// Returns center + times * (center - worst).
std::vector<double> extrapolate_from(const std::vector<double>& center, const std::vector<double>& worst,
                                     double times) {
  std::vector<double> out(center.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = center[i] + times * (center[i] - worst[i]);
  return out;
}

std::vector<double> compute_centroid(const std::vector<SimplexVertex>& vertices) {
  std::vector<double> out(vertices.front().at.size());
  for (std::size_t c = 0; c + 1 < vertices.size(); ++c)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += vertices[c].at[i] / static_cast<double>(vertices.size() - 1);
  return out;
}

}  // namespace

std::vector<double> minimize_nelder_mead(const std::vector<double>& begin, double size, int steps,
                                         const std::function<double(const std::vector<double>&)>& value) {
  std::vector<SimplexVertex> vertices{{begin, value(begin)}};
  for (std::size_t i = 0; i < begin.size(); ++i) {
    std::vector<double> at = begin;
    at[i] += size;
    vertices.push_back({at, value(at)});
  }
  const auto lower = [](const SimplexVertex& a, const SimplexVertex& b) { return a.value < b.value; };
  for (int step = 0; step < steps; ++step) {
    std::stable_sort(vertices.begin(), vertices.end(), lower);
    const std::vector<double> center = compute_centroid(vertices), last = vertices.back().at;
    const auto evaluate_at = [&](double times) {
      const std::vector<double> at = extrapolate_from(center, last, times);
      return SimplexVertex{at, value(at)};
    };
    SimplexVertex next = evaluate_at(1);
    if (next.value < vertices.front().value) {
      const SimplexVertex farther = evaluate_at(2);
      if (farther.value < next.value) next = farther;
    } else if (next.value >= vertices[vertices.size() - 2].value) {
      next = next.value < vertices.back().value ? evaluate_at(0.5) : evaluate_at(-0.5);
    }
    if (next.value < vertices.back().value) {
      vertices.back() = next;
      continue;
    }
    for (std::size_t c = 1; c < vertices.size(); ++c) {
      for (std::size_t i = 0; i < begin.size(); ++i)
        vertices[c].at[i] = (vertices[c].at[i] + vertices.front().at[i]) / 2;
      vertices[c].value = value(vertices[c].at);
    }
  }
  return std::min_element(vertices.begin(), vertices.end(), lower)->at;
}

}  // namespace ridge
