// The one clock and the one statistic of the project. Times are wall seconds of the steady clock; what is reported of
// several runs is the median with the least and the greatest, since a mean of timings follows the one run that the
// system disturbed: of 10, 11 and 30 ms the median is 11, the mean 17.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace ridge {

struct Statistics {
  double median = 0, min = 0, max = 0;
  int runs = 0;
  bool operator==(const Statistics&) const = default;
};

// Of an even number of runs the median is the mean of the two in the middle; of none, everything is 0.
inline Statistics statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
  return {.median = median, .min = samples.front(), .max = samples.back(), .runs = static_cast<int>(n)};
}

// Seconds for which the system let the calling thread run.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace ridge
