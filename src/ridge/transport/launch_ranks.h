// Starts ranks on this machine by forking this process and makes sure that all of them end. When a rank dies, the
// others are notified, and those that do not exit within two seconds are killed. The ranks die with this process.
#pragma once

#include <functional>
#include <optional>

#include "ridge/transport/communicator.h"

namespace ridge::transport {

struct LaunchResult {
  int exit_code = 0;                // exit code of rank 0, or of the kind of error in `cause`
  std::optional<Error> cause = {};  // why the run ended early, with the rank number
};

// Calls `work` in each rank; its result is the rank's exit code. Returns in the calling process when all ranks have
// ended. No other thread may be running (fork). Errors: those of `SharedSegment::make`; fork fails.
Result<LaunchResult> launch_ranks(int ranks, double timeout_s, const std::function<int(Communicator&)>& work);

}  // namespace ridge::transport
