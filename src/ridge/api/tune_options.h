// Converts the public `Tuning` to the options of measure/tune.h.
#pragma once

#include "ridge/measure/tune_options.h"
#include "ridge/tuning.h"

namespace ridge {

inline TuneOptions to_tune_options(const Tuning& tuning) {
  switch (tuning.from) {
    case Tuning::From::model: return {.use_stored = false, .candidates = 0};
    case Tuning::From::cached: return {.use_stored = true, .candidates = 0};
    case Tuning::From::measured: break;
  }
  return {.use_stored = true, .candidates = tuning.candidates};
}

}  // namespace ridge
