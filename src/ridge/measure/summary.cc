#include "ridge/measure/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge {
namespace {

// Returns the smallest cache that holds every tensor, where a pass finds the data of the pass before it. Returns
// nullptr if no cache does, or if the passes run on cold caches.
const MemoryLevel* cache_of(const Explanation& e, Between between) {
  if (between == Between::medians || !e.memory) return nullptr;
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
std::optional<double> fraction(const Prediction& prediction, double seconds, const MemoryLevel* cache) {
  if (!prediction.time_lower_s || !(seconds > 0)) return std::nullopt;
  if (!cache) return *prediction.time_lower_s / seconds;
  if (!cache->bandwidth || cache->bandwidth->origin != Origin::measured || !prediction.bytes) return std::nullopt;
  const double moving = static_cast<double>(*prediction.bytes) / cache->bandwidth->value;
  return std::max(moving, prediction.time_math_s.value_or(0)) / seconds;
}

double sum(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

}  // namespace

MedianInterval interval_of_median(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const double off = 0.98 * std::sqrt(n);  // half of 1.96 standard deviations of a binomial distribution with p = 0.5
  const auto at = [&](double place) { return samples[static_cast<std::size_t>(std::clamp(place, 0.0, n - 1))]; };
  return {.median = median_of_sorted(samples),
          .low = at(std::floor(n / 2 - off) - 1),
          .high = at(std::ceil(n / 2 + off)),
          .samples = static_cast<int>(samples.size())};
}

void summarize(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
               const std::vector<double>& walls, Between between, Measurement& out) {
  const MemoryLevel* const cache = cache_of(explanation, between);
  out.total.time = statistics(walls);
  out.total.share = 1;
  out.total.fraction_of_roof = fraction(explanation.total, out.total.time.median, cache);
  if (cache) out.total.cache = cache->name;
  double busy = 0;  // operations' seconds in all passes, or in a median pass
  for (std::size_t i = 0; i < samples.size(); ++i) {
    OpMeasurement op;
    op.time = statistics(samples[i]);
    op.fraction_of_roof = fraction(explanation.ops[i], op.time.median, cache);
    op.cache = out.total.cache;
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
