// Communicator on top of MPI, on one machine or many. MPI is not linked: Open MPI's library is loaded at run time and
// called through its ABI, in which handles are pointers to symbols of the library. MPICH's ABI differs; it is rejected.
// Source: mpi.h of Open MPI 4.1 and 5.0.
#pragma once

#include <functional>
#include <memory>

#include "ridge/transport/communicator.h"
#include "ridge/transport/launch_ranks.h"

namespace ridge::transport {

struct MpiOptions {
  double timeout_s = 120;
  // Called with the error before MPI_Abort, which ends this process, too, so that nothing can be printed afterwards.
  std::function<void(const Error&)> on_abort = {};
  std::string library_path = {};  // path of the library; empty: the system's Open MPI
};

// Initializes MPI; may be called once per process. Errors (kind `absent`): Open MPI is not found, the library is not
// Open MPI, or its rank or size differs from the launcher's.
Result<std::unique_ptr<Communicator>> connect_mpi(const Launcher& launcher, const MpiOptions& options);

}  // namespace ridge::transport
