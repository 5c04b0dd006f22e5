// Decides from predicted times whether a pair of steps is overlapped in chunks, and in how many.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/ranks/chunk_schedule.h"

namespace ridge::ranks {

struct ChunkPrediction {         // predicted times in seconds
  std::int64_t chunks = 0;       // chunks per shard; 0: the unchunked steps are faster
  bool single_kernel = false;    // true: one kernel for all chunks; false: one launch per chunk
  bool stores_remotely = false;  // true: the kernel stores sums to the peer; false: the copy engine sends them
  ChunkRunLengths run_lengths;   // chunks per copy of the copy engine
  double chunked_s = 0, sequential_s = 0;
  double compute_s = 0;  // compute step alone
  // Returns the part of the network time that is not hidden, or nullopt without a prediction.
  std::optional<double> exposed_network_s() const {
    if (sequential_s == 0) return std::nullopt;
    return (chunks > 0 ? chunked_s : sequential_s) - compute_s;
  }
};

struct LinkCosts {                                     // measured while all devices copy concurrently
  double write_bytes_per_s = 0, read_bytes_per_s = 0;  // bandwidth of writing to and reading from a peer
  // Fixed seconds of a copy with its flag in a sequence of copies, without and with a wait for its data.
  double copy_overhead_s = 0, awaited_copy_overhead_s = 0;
  double latency_s = 0;  // seconds of a short copy and its flag
  double barrier_s = 0;  // seconds of a flag exchange between adjacent ranks
};

struct ChunkRequest {
  const RankSchedule& schedule;
  const MeshDevice& mesh_device;
  const ChunkedPair& pair;
  const Machine& machine;  // has the measured times of NCCL on its links
  const ops::DeviceNumbers& device;
  std::function<Result<Plan>(const Program&)> make_plan;  // plans a compute step's program for the device
  ChunkOptions chunk_options;
  int rank = 0;
  LinkCosts link_costs;                         // measured between the devices
  std::optional<double> redistribution_s = {};  // redistribution alone, if it was measured
};
// Returns 0 chunks for steps without a prediction, which then run one after the other. Errors: those of
// `make_plan`.
Result<ChunkPrediction> predict_chunks(const ChunkRequest& request);

// Returns NCCL's measured time for a redistribution on the machine's links, or nullopt if there is none.
std::optional<double> nccl_redistribution_s(const Machine& machine, const RankSchedule& schedule,
                                            const MeshDevice& device, std::size_t step_index);

// A single kernel for all chunks of the pair's product, with its processing order on this rank (flags and addresses are
// not set yet). The product is the first planned step if it alone reads the gathered operand, or the last step if its
// sums are scattered. `plan_single_kernel` returns nullopt if no kernel can do it.
struct SingleKernelPlan {
  ops::RowWalk walk;
  double seconds = 0;
  double waves_per_shard = 1;  // waves of tiles per shard
};
std::optional<SingleKernelPlan> plan_single_kernel(const ChunkRequest& request, const Plan& planned,
                                                   std::int64_t chunks);

// Returns the bytes per row of the redistributed tensor, or 0 if it has no rows.
std::int64_t row_bytes(const RankSchedule& schedule, const ChunkedPair& pair, const MeshDevice& device);

// "y and reduce-scatter over X: 300.0 us predicted in 2 chunks of each shard along B, one kernel, 402.1 us in turn"
std::string describe_prediction(const RankSchedule& schedule, const ChunkedPair& pair,
                                const ChunkPrediction& prediction);

}  // namespace ridge::ranks
