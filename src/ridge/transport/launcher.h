// Who started this process as one of several ranks, by the variables that launchers set: mpirun of Open MPI, mpiexec of
// MPICH, srun, torchrun.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ridge::transport {

struct Launcher {
  std::string name;        // "mpirun"
  int rank = 0, size = 1;  // of all
  int neighbours = 1;      // ranks on this machine
  int local_rank = 0;      // among these
};

// `variable`: the value of an environment variable; null: it is not set. None: nobody did, or started one alone, or
// says what cannot be.
std::optional<Launcher> launcher_of(const std::function<const char*(const char*)>& variable);

}  // namespace ridge::transport
