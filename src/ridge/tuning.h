// How a product's plan is found on a CUDA device: by the model alone, or by what was measured before, or measured now.
#pragma once

namespace ridge {

struct Tuning {
  enum class From {
    model,     // the model's choice, whatever is kept
    kept,      // a choice that was measured before and lies in the user's cache goes before the model's
    measured,  // where none is kept: measures the model's best `candidates`, keeps the fastest
  };
  From from = From::model;
  int candidates = 8;  // at least 1
};

}  // namespace ridge
