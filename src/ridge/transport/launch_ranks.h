// Starts ranks on this machine by forking this process and makes sure that all of them end. When a rank dies, the
// others are notified, and those that do not exit within two seconds are killed. The ranks die with this process.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ridge/transport/communicator.h"

namespace ridge::transport {

// Detects from environment variables which launcher started this process as one of several ranks: Open MPI's mpirun,
// MPICH's mpiexec, srun or torchrun.
struct Launcher {
  std::string name;        // for example "mpirun"
  int rank = 0, size = 1;  // global rank and number of ranks
  int local_size = 1;      // number of ranks on this machine
  int local_rank = 0;      // index among the ranks of this machine
};

// `get_variable` returns the value of an environment variable, or null if it is not set. Returns nullopt if no launcher
// is found, if it started only one rank, or if its values are inconsistent.
std::optional<Launcher> detect_launcher(const std::function<const char*(const char*)>& get_variable);

struct LaunchResult {
  int exit_code = 0;                // exit code of rank 0, or of the kind of error in `cause`
  std::optional<Error> cause = {};  // why the run ended early, with the rank number
};

// Calls `work` in each rank; its result is the rank's exit code. Returns in the calling process when all ranks have
// ended. No other thread may be running (fork). Errors: those of `SharedSegment::make`; fork fails.
Result<LaunchResult> launch_ranks(int ranks, double timeout_s, const std::function<int(Communicator&)>& work);

}  // namespace ridge::transport
