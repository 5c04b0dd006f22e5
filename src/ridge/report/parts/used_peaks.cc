#include "ridge/report/parts/used_peaks.h"

#include <algorithm>

namespace ridge {

std::vector<const Peak*> used_peaks(const Explanation& explanation) {
  std::vector<const Peak*> used;
  for (const Prediction& op : explanation.ops)
    if (op.peak && std::none_of(used.begin(), used.end(), [&](const Peak* peak) { return *peak == *op.peak; }))
      used.push_back(&*op.peak);
  return used;
}

std::vector<const Prediction*> sums_with_thresholds(const Explanation& explanation) {
  std::vector<const Prediction*> out;
  if (explanation.ops.size() < 2) return out;
  if (!explanation.total.thresholds.empty()) out.push_back(&explanation.total);
  if (explanation.fused && !explanation.fused->thresholds.empty()) out.push_back(&*explanation.fused);
  return out;
}

Origin least_certain_origin(const Machine& machine, const std::vector<const Peak*>& peaks) {
  const auto uncertainty_rank = [](Origin origin) {
    switch (origin) {
      case Origin::measured: return 0;
      case Origin::datasheet: return 1;
      case Origin::derived: return 2;
      case Origin::guessed: return 3;
    }
    return 3;
  };
  Origin worst = Origin::measured;
  const auto add = [&](Origin origin) { worst = uncertainty_rank(origin) > uncertainty_rank(worst) ? origin : worst; };
  for (const Peak* peak : peaks) add(peak->rate.origin);
  if (!machine.memory.empty() && machine.memory.front().bandwidth) add(machine.memory.front().bandwidth->origin);
  return worst;
}

}  // namespace ridge
