// Converts the public request of a run to the options of measure/.
#pragma once

#include "ridge/measure/run.h"
#include "ridge/ridge.h"
#include "ridge/run/run_options.h"
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

namespace api {
RunOptions make_run_options(const Request& request, const RunRequest& run_request);
}

}  // namespace ridge
