// Which plan a product runs with on a device: what is asked for, and what came of it (tune.h).
#pragma once

#include <string>

namespace ridge {

struct TuneOptions {
  bool stored = false;  // a choice that is kept (ops/product/tuned_choices.h) goes before the model's
  int candidates = 0;   // more than 0: where none is kept that so many plans took part in, measures and keeps it
};

// How a product's plan was found, where it is not simply the model's.
struct Tuned {
  std::string kernel;                     // of the menu: "sm90_128x192x64_pingpong"
  int splits = 1;                         // of k
  double seconds = 0, model_seconds = 0;  // of the plan that runs, and of the model's choice; 0: nothing is known
  int candidates = 0;                     // that took part
  bool now = false;                       // measured in this run; else earlier
  bool is_model = false;                  // none gained 2 % on the model's choice
  std::string remark;                     // an entry that was ignored, one that could not be written: a sentence
};

}  // namespace ridge
