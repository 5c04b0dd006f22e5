// What a user says of tuning, as measure/tune.h takes it.
#pragma once

#include "ridge/measure/tune_options.h"
#include "ridge/tuning.h"

namespace ridge {

inline TuneOptions tune_options(const Tuning& tuning) {
  switch (tuning.from) {
    case Tuning::From::model: return {.stored = false, .candidates = 0};
    case Tuning::From::kept: return {.stored = true, .candidates = 0};
    case Tuning::From::measured: break;
  }
  return {.stored = true, .candidates = tuning.candidates};
}

}  // namespace ridge
