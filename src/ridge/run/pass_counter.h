// Decides how many passes of a program are timed: at least five passes and 0.2 s (on a device, whose passes are graph
// replays, 0.02 s), at most 1000; or as many as the user requests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ridge/run/run_options.h"

namespace ridge {

class PassCounter {
 public:
  explicit PassCounter(const RunOptions& options, double seconds = 0.2)
      : exact_passes_(options.passes), min_seconds_(seconds) {
    if (options.seconds > 0) {
      min_seconds_ = options.seconds;
      max_passes_ = 1'000'000;
    }
  }
  // A device times its kernels one by one and then together; the requested time is divided among them.
  static PassCounter for_device(const RunOptions& options, std::size_t timed_units) {
    RunOptions each;
    each.passes = options.passes;
    each.seconds = options.seconds / static_cast<double>(timed_units);
    return PassCounter(each, 0.02);
  }
  static PassCounter exact_count(int passes) {
    RunOptions options;
    options.passes = passes;
    return PassCounter(options);
  }
  bool needs_more() const {
    if (exact_passes_ > 0) return done_ < exact_passes_;
    return done_ < min_passes || (spent_s_ < min_seconds_ && done_ < max_passes_);
  }
  void add_pass(double seconds) {
    ++done_;
    spent_s_ += seconds;
  }
  // Passes cover 0.2 to 0.7 of the run's progress.
  double run_progress() const {
    return 0.2 + 0.5 * static_cast<double>(done_) / (done_ + 1 + (exact_passes_ > 0 ? exact_passes_ : min_passes));
  }
  std::string describe_pass() const { return fmt::format("run {}", done_ + 1); }

 private:
  static constexpr int min_passes = 5;
  int exact_passes_;
  double min_seconds_;
  int done_ = 0, max_passes_ = 1000;
  double spent_s_ = 0;
};

}  // namespace ridge
