// Verifies the results of ranks: operands and results of each operation are gathered at rank 0 and compared there with
// the reference implementation, which ignores the mesh.
#pragma once

#include "ridge/measure/run.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {

struct VerifyRequest {
  const Program& program;
  const Bindings& sizes;
  const std::vector<std::vector<int>>& operations;  // statements of each operation
  const std::vector<bool>& is_stored;               // for each slot, true if it is in memory; equal on all ranks
};

// Collective call. Rank 0 writes errors, the number of verified elements and the first mismatch to `out`.
Status verify_results(const VerifyRequest& request, const RankProgram& rank_program, transport::Communicator& comm,
                      const RunOptions& options, Measurement& out);

}  // namespace ridge::ranks
