// Work that threads have done over time, and the largest rate of all threads together in a short window. On a shared
// machine other programs interrupt most of a second, but not every window of 2 ms, so the largest rate is the
// machine's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ridge {

// One thread's log: work is done at a constant rate between two entries.
class WorkLog {
 public:
  explicit WorkLog(double begin = 0) : seconds_{begin}, work_{0} {}
  void add(double end, double work) {
    seconds_.push_back(end);
    work_.push_back(work_.back() + work);
  }
  std::span<const double> seconds() const { return seconds_; }
  double total() const { return work_.back(); }
  double work_until(double seconds) const;

 private:
  std::vector<double> seconds_, work_;
};

// Returns the largest work per second of all threads in a window of this length that begins with an entry of the first
// log.
double find_largest_rate(std::span<const WorkLog> logs, double window_seconds);

}  // namespace ridge
