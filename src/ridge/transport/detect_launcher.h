// Detects from environment variables which launcher started this process as one of several ranks: Open MPI's mpirun,
// MPICH's mpiexec, srun or torchrun.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ridge::transport {

struct Launcher {
  std::string name;        // for example "mpirun"
  int rank = 0, size = 1;  // global rank and number of ranks
  int local_size = 1;      // number of ranks on this machine
  int local_rank = 0;      // index among the ranks of this machine
};

// `get_variable` returns the value of an environment variable, or null if it is not set. Returns nullopt if no launcher
// is found, if it started only one rank, or if its values are inconsistent.
std::optional<Launcher> detect_launcher(const std::function<const char*(const char*)>& get_variable);

}  // namespace ridge::transport
