#include "ridge/report/used.h"

#include <algorithm>

namespace ridge {

std::vector<const Peak*> used_peaks(const Explanation& explanation) {
  std::vector<const Peak*> used;
  for (const Prediction& op : explanation.ops) {
    const Peak* peak = nullptr;
    if (!op.work.contraction) {
      peak = explanation.machine.pointwise_peak();
    } else if (auto found = explanation.machine.contraction_peak(op.work.math); found.ok()) {
      peak = *found;
    }
    if (peak != nullptr && std::find(used.begin(), used.end(), peak) == used.end()) used.push_back(peak);
  }
  return used;
}

Origin weakest_origin(const Machine& machine, const std::vector<const Peak*>& peaks) {
  const auto doubt = [](Origin origin) {
    switch (origin) {
      case Origin::measured: return 0;
      case Origin::datasheet: return 1;
      case Origin::derived: return 2;
      case Origin::guessed: return 3;
    }
    return 3;
  };
  Origin worst = Origin::measured;
  const auto add = [&](Origin origin) { worst = doubt(origin) > doubt(worst) ? origin : worst; };
  for (const Peak* peak : peaks) add(peak->rate.origin);
  if (!machine.memory.empty() && machine.memory.front().bandwidth) add(machine.memory.front().bandwidth->origin);
  return worst;
}

}  // namespace ridge
