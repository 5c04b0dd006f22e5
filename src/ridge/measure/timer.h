// The clocks and the one statistic of the project. `run` and `probe` report wall seconds of the steady clock, which is
// what a user waits for. The contests (`bench`) compare what works in the calling thread alone by that thread's own
// processor time: a neighbour that takes the core for 5 of 15 ms lengthens the wall time by half and this one not at
// all. Time that several threads take together is wall time, or that of the slowest. What is reported of several runs
// is the median with the least and the greatest, since a mean of timings follows the one run that the system disturbed:
// of 10, 11 and 30 ms the median is 11, the mean 17.
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

enum class Clock { wall, thread };  // steady; the calling thread's processor time

class Timer {
 public:
  explicit Timer(Clock clock = Clock::wall) : clock_(clock), start_(now()) {}
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    if (clock_ == Clock::thread) return thread_seconds();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  Clock clock_;
  double start_;
};

}  // namespace ridge
