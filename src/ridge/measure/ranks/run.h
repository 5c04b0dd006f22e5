// Runs a sharded program on ranks, one for each device of the mesh, with the timing protocol and the verification of
// measure/run.h; all ranks make the same passes. Inputs are the shards of a single device's inputs with the same seed.
// For each rank compute, network and waiting times are reported. Rank 0 gathers what is verified and written to files.
#pragma once

#include "ridge/measure/run.h"
#include "ridge/plan/ranks/chunk_schedule.h"
#include "ridge/run/ranks/rank_program.h"
#include "ridge/transport/communicator.h"
#include "ridge/transport/nccl.h"

namespace ridge::ranks {

struct RankRunRequest {
  const Program& program;          // sharded, or unsharded for one rank
  const Explanation& explanation;  // roofline of one device of the mesh
  double min_words = 0;            // for RanksMeasurement::min_words
  std::string nccl_library = {};   // path of the NCCL library for devices; empty: the system's
  // On devices: selects the products that are overlapped with their collectives in chunks.
  ChunkOptions chunk_options = {};
  bool check_results = true;  // true if results are verified
  // On devices: NCCL communicator of an earlier run on these ranks; null: `run_on_ranks` connects them.
  std::shared_ptr<const transport::NcclCommunicator> nccl_world = {};
};

// Filled at rank 0 only.
struct RankRunResult {
  Explanation explanation;  // one operation for each kernel
  Measurement measurement;
};

// Errors: the number of ranks differs from the number of devices; those of `build_rank_schedule`, `run` and
// `exchange_messages`. An error may occur on one rank only: the caller then calls `abort_all`.
Result<RankRunResult> run_on_ranks(const RankRunRequest& request, transport::Communicator& comm,
                                   const RunOptions& options);

// Verifies the results of ranks: operands and results of each operation are gathered at rank 0 and compared there with
// the reference implementation, which ignores the mesh.
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
