// Options of a run of a program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "ridge/run/tune_options.h"

namespace ridge {

struct RunOptions {
  std::map<std::string, std::string> in = {};   // tensor -> .npy file; other inputs are random
  std::map<std::string, std::string> out = {};  // tensor -> .npy file to write
  std::uint64_t seed = 0;
  int threads = 0;  // 0 selects every core that the process may use
  bool cuda = false;
  bool fuse = true;    // false runs one kernel per statement
  int passes = 0;      // exact number of passes; 0 leaves the choice to `PassCounter`
  double seconds = 0;  // minimum seconds of timing; 0 leaves the choice to `PassCounter`
  // On a device: stored choices of plans have priority over the model's; with candidates, plans are measured.
  TuneOptions tune = {.use_stored = true};
  // Called occasionally with the fraction done (0..1) and the current activity.
  std::function<void(double done, const std::string& doing)> progress = {};
};

}  // namespace ridge
