// Decides from predicted times whether a pair of steps is overlapped in chunks, and in how many.
#pragma once

#include <optional>
#include <string>

#include "ridge/machine/machine.h"
#include "ridge/measure/ranks/chunks.h"
#include "ridge/measure/ranks/part.h"
#include "ridge/measure/ranks/reach.h"

namespace ridge::ranks {

struct ChunkTimes {         // predicted times in seconds
  std::int64_t chunks = 0;  // chunks per shard; 0: running the steps in turn is faster
  bool one_kernel = false;  // true: one kernel for all chunks; false: one launch per chunk
  bool stores = false;      // true: the kernel stores sums to the peer; false: the copy engine sends them
  Runs runs;                // chunks per copy of the copy engine
  double in_chunks = 0, in_turn = 0;
  double computing = 0;  // compute step alone
  // Returns the part of the network time that is not hidden, or nullopt without a prediction.
  std::optional<double> moving() const {
    if (in_turn == 0) return std::nullopt;
    return (chunks > 0 ? in_chunks : in_turn) - computing;
  }
};

struct ChunkQuestion {
  const Part& part;
  const ChunkedPair& pair;
  const Machine& machine;  // has the measured times of NCCL on its links
  const RunOptions& options;
  Chunks how;
  int rank = 0;
  Links links;                          // measured between the devices
  std::optional<double> moving_s = {};  // redistribution alone, if it was measured
};
// Steps without a prediction run in turn (0 chunks). Errors: those of `plan`; no device.
Result<ChunkTimes> chunk_times(const ChunkQuestion& question);

// Returns NCCL's measured time for a redistribution on the machine's links, or nullopt if there is none.
std::optional<double> library_time(const Machine& machine, const Part& part, std::size_t act);

// A single kernel for all chunks of the pair's product, with its processing order on this rank (flags and addresses are
// not set yet). The product is the first planned step if it alone reads the gathered operand, or the last step if its
// sums are scattered. `plan_single_kernel` returns nullopt if no kernel can do it.
struct OneKernel {
  ops::RowWalk walk;
  double seconds = 0;
  double waves = 1;  // waves of tiles per shard
};
std::optional<OneKernel> one_kernel(const ChunkQuestion& question, const Plan& planned, std::int64_t chunks);

// Returns the bytes per row of the redistributed tensor, or 0 if it has no rows.
std::int64_t row_bytes(const Part& part, const ChunkedPair& pair);

// "y and reduce-scatter over X: 300.0 us predicted in 2 chunks of each shard along B, one kernel, 402.1 us in turn"
std::string text(const Acts& acts, const ChunkedPair& pair, const ChunkTimes& times);

}  // namespace ridge::ranks
