// Options that select a product's plan on a device, and the result of that selection (tune.h).
#pragma once

#include <string>

namespace ridge {

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

}  // namespace ridge
