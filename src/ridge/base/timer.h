// Clocks and run statistics. `run` and `probe` report wall seconds, which is what a user waits for. The benchmarks
// (`bench`) compare single-threaded work by the thread's own CPU time: another process that takes the core for 5 of 15
// ms lengthens wall time by half, but not CPU time. Work of several threads is timed by wall time, or by the CPU time
// of the slowest thread. Results of several runs are the median with minimum and maximum, because a mean follows the
// one run that was disturbed: of 10, 11 and 30 ms the median is 11, the mean 17.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace ridge {

struct Statistics {
  double median = 0, min = 0, max = 0;
  int runs = 0;
  int outliers = 0;  // far from the other samples: see `is_outlier`
  bool operator==(const Statistics&) const = default;
};

// True beyond 14.8 robust standard deviations (1.4826 times the median distance from the median), the limit of
// hyperfine. A sample within 1 % of the median is never an outlier.
inline bool is_outlier(double sample, double median, double median_distance) {
  constexpr double deviations = 14.826, robust = 1.4826, min_fraction = 0.01;
  const double distance = sample > median ? sample - median : median - sample;
  return distance > deviations * robust * median_distance && distance > min_fraction * median;
}

// Returns the median; for an even count it is the mean of the two middle samples.
inline double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

inline Statistics compute_statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const double median = median_of_sorted(samples);
  std::vector<double> distances;
  for (const double sample : samples) distances.push_back(sample > median ? sample - median : median - sample);
  std::sort(distances.begin(), distances.end());
  constexpr std::size_t min_samples = 5;
  const double distance = median_of_sorted(distances);
  const auto outliers = std::count_if(samples.begin(), samples.end(),
                                      [&](double sample) { return is_outlier(sample, median, distance); });
  return {.median = median,
          .min = samples.front(),
          .max = samples.back(),
          .runs = static_cast<int>(samples.size()),
          .outliers = samples.size() < min_samples ? 0 : static_cast<int>(outliers)};
}

// CPU time of the calling thread, in seconds.
inline double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

enum class TimerClock { wall, thread };  // steady clock; CPU time of the calling thread

class Timer {
 public:
  explicit Timer(TimerClock clock = TimerClock::wall) : clock_(clock), start_(read_clock()) {}
  double seconds() const { return read_clock() - start_; }

 private:
  double read_clock() const {
    if (clock_ == TimerClock::thread) return thread_cpu_seconds();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  TimerClock clock_;
  double start_;
};

}  // namespace ridge
