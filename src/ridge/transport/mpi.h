// Ranks that MPI starts and joins, on one machine or many. Nothing of MPI is linked: Open MPI's library is opened at
// run time and called by its ABI, in which handles are pointers to symbols of the library; MPICH's differs and is
// refused. Source: mpi.h of Open MPI 4.1 and 5.0.
#pragma once

#include <functional>
#include <memory>

#include "ridge/transport/launcher.h"
#include "ridge/transport/ranks.h"

namespace ridge::transport {

struct MpiOptions {
  double patience_s = 120;
  // Called before MPI ends all ranks because of this one, with what is to be told; nobody could tell it later.
  std::function<void(const Error&)> last_words = {};
  std::string library = {};  // its file; empty: the system's Open MPI
};

// To be called once. Errors, of kind absent: no library of Open MPI, MPICH's, one that sees other ranks than the
// launcher says.
Result<std::unique_ptr<Ranks>> mpi_ranks(const Launcher& launcher, const MpiOptions& options);

}  // namespace ridge::transport
