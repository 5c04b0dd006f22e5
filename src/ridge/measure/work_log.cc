#include "ridge/measure/work_log.h"

#include <algorithm>

namespace ridge {

double WorkLog::work_until(double seconds) const {
  const auto after = std::upper_bound(seconds_.begin(), seconds_.end(), seconds);
  if (after == seconds_.begin()) return 0;
  if (after == seconds_.end()) return work_.back();
  const std::size_t i = after - seconds_.begin();
  const double fraction = (seconds - seconds_[i - 1]) / (seconds_[i] - seconds_[i - 1]);
  return work_[i - 1] + fraction * (work_[i] - work_[i - 1]);
}

double find_largest_rate(std::span<const WorkLog> logs, double window_seconds) {
  double largest = 0;
  for (const double begin : logs.front().seconds()) {
    double work = 0;
    for (const WorkLog& log : logs) work += log.work_until(begin + window_seconds) - log.work_until(begin);
    largest = std::max(largest, work / window_seconds);
  }
  return largest;
}

}  // namespace ridge
