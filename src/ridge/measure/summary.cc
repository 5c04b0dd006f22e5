#include "ridge/measure/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge {
namespace {

std::optional<double> fraction(const Prediction& prediction, double seconds) {
  if (!prediction.time_lower_s || !(seconds > 0)) return std::nullopt;
  return *prediction.time_lower_s / seconds;
}

double sum(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

}  // namespace

MedianInterval interval_of_median(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const double off = 0.98 * std::sqrt(n);  // half of 1.96 standard deviations of a binomial of one half
  const auto at = [&](double place) { return samples[static_cast<std::size_t>(std::clamp(place, 0.0, n - 1))]; };
  return {.median = median_of_sorted(samples),
          .low = at(std::floor(n / 2 - off) - 1),
          .high = at(std::ceil(n / 2 + off)),
          .samples = static_cast<int>(samples.size())};
}

void summarize(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
               const std::vector<double>& walls, Between between, Measurement& out) {
  out.total.time = statistics(walls);
  out.total.share = 1;
  out.total.fraction_of_roof = fraction(explanation.total, out.total.time.median);
  double busy = 0;  // of all passes, or of a typical one
  for (std::size_t i = 0; i < samples.size(); ++i) {
    OpMeasurement op;
    op.time = statistics(samples[i]);
    op.fraction_of_roof = fraction(explanation.ops[i], op.time.median);
    op.share = between == Between::sums ? sum(samples[i]) : op.time.median;
    busy += op.share;
    out.ops.push_back(std::move(op));
  }
  const double wall = between == Between::sums ? sum(walls) : out.total.time.median;
  const double whole = between == Between::sums ? wall : busy;
  for (OpMeasurement& op : out.ops) op.share = whole > 0 ? op.share / whole : 0;
  const double passes = between == Between::sums ? std::max(static_cast<double>(walls.size()), 1.0) : 1;
  out.overhead_s = std::max(0.0, wall - busy) / passes;
}

}  // namespace ridge
