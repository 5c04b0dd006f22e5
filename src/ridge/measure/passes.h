// Decides how many passes of a program are timed: at least five passes and 0.2 s (on a device, whose passes are graph
// replays, 0.02 s), at most 1000; or as many as the user requests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ridge/measure/run.h"

namespace ridge {

class Passes {
 public:
  explicit Passes(const RunOptions& options, double seconds = 0.2) : exactly_(options.passes), seconds_(seconds) {
    if (options.seconds > 0) {
      seconds_ = options.seconds;
      most_ = 1'000'000;
    }
  }
  // A device times its kernels one by one and then together; the requested time is divided among them.
  static Passes on_device(const RunOptions& options, std::size_t timed) {
    RunOptions each;
    each.passes = options.passes;
    each.seconds = options.seconds / static_cast<double>(timed);
    return Passes(each, 0.02);
  }
  static Passes exactly(int passes) {
    RunOptions options;
    options.passes = passes;
    return Passes(options);
  }
  bool more() const {
    if (exactly_ > 0) return done_ < exactly_;
    return done_ < least || (spent_ < seconds_ && done_ < most_);
  }
  void add(double seconds) {
    ++done_;
    spent_ += seconds;
  }
  // Passes cover 0.2 to 0.7 of the run's progress.
  double progress() const {
    return 0.2 + 0.5 * static_cast<double>(done_) / (done_ + 1 + (exactly_ > 0 ? exactly_ : least));
  }
  std::string doing() const { return fmt::format("run {}", done_ + 1); }

 private:
  static constexpr int least = 5;
  int exactly_;
  double seconds_;
  int done_ = 0, most_ = 1000;
  double spent_ = 0;
};

}  // namespace ridge
