// How often a program is run: until there are five passes and 0.2 s of them, a thousand at most; or as the user says.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ridge/measure/run.h"

namespace ridge {

class Passes {
 public:
  explicit Passes(const RunOptions& options) : exactly_(options.passes) {
    if (options.seconds > 0) {
      seconds_ = options.seconds;
      most_ = 1'000'000;
    }
  }
  bool more() const {
    if (exactly_ > 0) return done_ < exactly_;
    return done_ < least || (spent_ < seconds_ && done_ < most_);
  }
  void add(double seconds) {
    ++done_;
    spent_ += seconds;
  }
  // Of the run's progress, passes are from 0.2 to 0.7.
  double progress() const {
    return 0.2 + 0.5 * static_cast<double>(done_) / (done_ + 1 + (exactly_ > 0 ? exactly_ : least));
  }
  std::string doing() const { return fmt::format("run {}", done_ + 1); }

 private:
  static constexpr int least = 5;
  int exactly_, done_ = 0, most_ = 1000;
  double seconds_ = 0.2, spent_ = 0;
};

}  // namespace ridge
