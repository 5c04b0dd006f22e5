// Starts ranks on this machine, as processes that are copies of this one, and sees to it that all of them end: when one
// dies the others are told, and those that do not end by themselves within seconds are killed; when this process dies
// they die with it.
#pragma once

#include <functional>
#include <optional>

#include "ridge/transport/ranks.h"

namespace ridge::transport {

struct Launched {
  int code = 0;                     // rank 0's, or that of the cause
  std::optional<Error> cause = {};  // why the run ended early, with the rank
};

// Calls `work` in each rank; what it returns is the rank's exit code. Returns in the process that calls it, when all
// ranks have ended. To be called where no other thread runs. Errors: Segment::make()'s, no more processes.
Result<Launched> launch(int ranks, double patience_s, const std::function<int(Ranks&)>& work);

}  // namespace ridge::transport
