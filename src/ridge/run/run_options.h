// Options of a run of a program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace ridge {

// Options that select a product's plan on a device (tune.h).
struct TuneOptions {
  bool use_stored = false;  // a stored choice (ops/product/tuned_choices.h) has priority over the model's
  // If above 0: measure the best plans and store the result, unless a stored choice had as many candidates.
  int candidates = 0;
};

// Result of a product's plan selection, if it is not simply the model's choice.
struct TuningResult {
  std::string kernel;                     // kernel config's name: "sm90_128x192x64_pingpong"
  int splits = 1;                         // number of splits of k
  double seconds = 0, model_seconds = 0;  // seconds of the plan that runs and of the model's choice; 0 if unknown
  int candidates = 0;                     // number of plans that were measured
  bool measured_now = false;              // measured in this run, not in an earlier one
  bool is_model = false;                  // no plan was 2 % faster than the model's choice
  std::string remark;                     // a sentence about a stored entry that was ignored or could not be written
};

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
