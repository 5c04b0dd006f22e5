#include "ridge/measure/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge {
namespace {

// Returns the smallest cache that holds every tensor, where a pass finds the data of the pass before it. Returns
// nullptr if no cache does, or if the passes run on cold caches.
const MemoryLevel* smallest_fitting_cache(const Explanation& e, OverheadMethod method) {
  if (method == OverheadMethod::medians || !e.memory) return nullptr;
  double bytes = 0;
  for (const TensorMemory& tensor : e.memory->tensors) bytes += tensor.device_bytes.value_or(0);
  const MemoryLevel* smallest = nullptr;
  for (std::size_t i = 1; i < e.machine.memory.size(); ++i) {
    const MemoryLevel& level = e.machine.memory[i];
    if (!level.capacity || level.capacity->value < bytes) continue;
    if (!smallest || level.capacity->value < smallest->capacity->value) smallest = &level;
  }
  return smallest;
}

// Returns the fraction of memory's roof or, with `cache`, of the cache's measured roof; nullopt if it is unknown.
std::optional<double> compute_fraction_of_roof(const Prediction& prediction, double seconds, const MemoryLevel* cache) {
  if (!prediction.time_lower_s || !(seconds > 0)) return std::nullopt;
  if (!cache) return *prediction.time_lower_s / seconds;
  if (!cache->bandwidth || cache->bandwidth->origin != Origin::measured || !prediction.bytes) return std::nullopt;
  const double memory_seconds = static_cast<double>(*prediction.bytes) / cache->bandwidth->value;
  return std::max(memory_seconds, prediction.time_math_s.value_or(0)) / seconds;
}

double sum_seconds(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

}  // namespace

MedianInterval compute_median_interval(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const double rank_offset =
      0.98 * std::sqrt(n);  // half of 1.96 standard deviations of a binomial distribution with p = 0.5
  const auto at = [&](double rank) { return samples[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
  return {.median = median_of_sorted(samples),
          .low = at(std::floor(n / 2 - rank_offset) - 1),
          .high = at(std::ceil(n / 2 + rank_offset)),
          .samples = static_cast<int>(samples.size())};
}

void summarize_samples(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
                       const std::vector<double>& wall_seconds, OverheadMethod method, Measurement& out) {
  const MemoryLevel* const cache = smallest_fitting_cache(explanation, method);
  out.total.time = compute_statistics(wall_seconds);
  out.total.share = 1;
  out.total.fraction_of_roof = compute_fraction_of_roof(explanation.total, out.total.time.median, cache);
  if (cache) out.total.cache = cache->name;
  double busy = 0;  // operations' seconds in all passes, or in a median pass
  for (std::size_t i = 0; i < samples.size(); ++i) {
    OpMeasurement op;
    op.time = compute_statistics(samples[i]);
    op.fraction_of_roof = compute_fraction_of_roof(explanation.ops[i], op.time.median, cache);
    op.cache = out.total.cache;
    op.share = method == OverheadMethod::sums ? sum_seconds(samples[i]) : op.time.median;
    busy += op.share;
    out.ops.push_back(std::move(op));
  }
  const double wall = method == OverheadMethod::sums ? sum_seconds(wall_seconds) : out.total.time.median;
  const double share_base = method == OverheadMethod::sums ? wall : busy;
  for (OpMeasurement& op : out.ops) op.share = share_base > 0 ? op.share / share_base : 0;
  const double passes = method == OverheadMethod::sums ? std::max(static_cast<double>(wall_seconds.size()), 1.0) : 1;
  out.overhead_s = std::max(0.0, wall - busy) / passes;
}

}  // namespace ridge
