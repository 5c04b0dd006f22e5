// Overlaps a product with the collective before or after it, in chunks of rows: one chunk is multiplied while another
// is in flight. A shard is the rows of one rank. Each rank processes the shards in this order:
//   all-gather, product        its own shard, then those of the following ranks as they arrive. With a launch per chunk
//                              only the last shard is split into chunks, because no work is left to hide its transfer.
//                              With a single kernel every shard is split into column blocks.
//   product, reduce-scatter    the chunks of the next rank's shard, sent on to the previous rank, which adds to them;
//                              then those of the following shards, each added to the partial sum that arrived; its own
//                              shard last
//   product, all-reduce        the same; then each finished chunk of its own shard is sent to all other ranks
// This file only deals with rows and predicted seconds; chunked_executor.h runs the chunks on devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/product/call.h"
#include "ridge/plan/ranks/rank_schedule.h"

namespace ridge::ranks {

inline constexpr std::int64_t max_chunks = ops::ScatteredRows::max_chunks;  // per shard
struct ChunkOptions {
  enum class ChunkMode { never, where_faster, always };
  ChunkMode mode = ChunkMode::where_faster;
  // Chunks per shard (all-gather with launches: of the last shard); 0: the number that is predicted to be fastest.
  std::int64_t count = 0;
};

// Two consecutive steps, a product and a redistribution, that handle each row independently of the others.
struct ChunkedPair {
  std::size_t compute_step = 0, redistribution_step = 0;  // indices of RankSchedule::steps
  Collective kind = Collective::all_gather;
  std::string row_dim;  // dimension of the rows: the first axis of every tensor that has it
  bool is_gather() const { return kind == Collective::all_gather; }
};
// Returns the pair that begins with this step, or nullopt if the steps cannot be split into chunks. `stored_tensors`
// must be complete in memory afterwards.
std::optional<ChunkedPair> find_chunked_pair(const RankSchedule& schedule, std::size_t step_index,
                                             const MeshDevice& device, const std::vector<int>& stored_tensors);

// Returns the index of the redistributed tensor in the compute step's program.
int redistributed_tensor(const RankSchedule& schedule, const ChunkedPair& pair);

// Returns the row shards of the ranks that take part, ordered by position.
struct RowShard {
  int rank = 0;
  AxisRange rows;
};
std::vector<RowShard> row_shards(const RankSchedule& schedule, const ChunkedPair& pair, const MeshDevice& device);

// Returns the compute step's program for `rows` rows.
Program program_for_rows(const RankSchedule& schedule, const ChunkedPair& pair, std::int64_t rows);

// Splits rows into at most `chunks` chunks. All but the last have the same length, a multiple of 128 (a tile's height).
std::vector<AxisRange> split_rows(const AxisRange& rows, std::int64_t chunks);

// Returns the order in which a single kernel processes gathered or scattered rows; its `rows` is 0 if none can.
struct RowOrderShape {
  bool is_gather = false;
  std::int64_t columns = 0;             // columns of the product's result; for a gather, of the gathered operand
  std::int64_t rows_per_shard_row = 1;  // matrix rows per row of a shard
};
ops::RowWalk plan_row_order(const std::vector<RowShard>& shards, std::size_t position, const RowOrderShape& shape,
                            std::int64_t chunks);

// Consecutive chunks of scattered sums that the copy engine sends in one copy. Longer runs amortize the fixed cost of a
// copy, but their first chunks wait until the last one is computed. In the first shard run lengths double from 1 up to
// their maximum, because the links are idle until the first copy.
struct ChunkRun {
  std::size_t shard_position = 0;  // position of the shard in processing order
  AxisRange chunk_range;           // chunks of that shard
};
struct ChunkRunLengths {
  // Maximum chunks per run: in the first, middle and last shard that is sent on; of the final sums of an all-reduce.
  std::int64_t max_first = 1, max_middle = 1, max_last = 1;
  std::int64_t max_broadcast = 1;
  std::vector<ChunkRun> list_runs(std::size_t ranks, std::int64_t chunks) const;  // in processing order
};
// Assigns each chunk the flag of its run: flags are numbered like runs.
void assign_flags(ops::ScatteredRows& rows, const std::vector<ChunkRun>& runs);

// Order in which a rank sends the column blocks of its shard in an all-gather: the order in which the single kernel
// needs them. Its tiles run in waves, `waves` per shard, and all tiles of a wave start with the first column block.
struct ColumnSend {
  std::size_t rank_distance = 1, column_block = 0;  // the receiver is `rank_distance` positions before this rank
};
std::vector<ColumnSend> order_column_sends(std::size_t ranks, std::size_t column_blocks, double waves);

struct ChunkSeconds {
  double main_product =
      0;  // all-gather: product of a full shard; else: product of a chunk that is added to an arrived sum
  double edge_product =
      0;               // all-gather: product of a chunk of the last shard; else: product of a chunk of the first shard
  double send = 0;     // transfer of a chunk on otherwise idle links
  double latency = 0;  // message latency: before the first copy of an all-gather; after each copy of sums
};
// Estimates the seconds of a pair with one launch per chunk, if all ranks run in lockstep.
double estimate_chunk_launches_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkSeconds& seconds);

// Times for a single kernel that processes all chunks of all shards.
struct KernelSeconds {
  double chunk_product = 0;    // product of a chunk
  double remote_store = 0;     // store of a chunk over the links, if the kernel stores it to the peer; else 0
  double transfer = 0;         // transfer of a chunk's bytes by the copy engine
  double copy_overhead = 0;    // fixed cost of a copy
  double latency = 0;          // message latency
  double waves_per_shard = 1;  // number of waves of tiles per shard; a wave fills all multiprocessors
};
double estimate_single_kernel_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkRunLengths& runs,
                                const KernelSeconds& seconds);

}  // namespace ridge::ranks
