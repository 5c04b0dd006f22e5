// Runs a pair of steps in chunks (chunk_schedule.h) on devices with peer access. If possible, a single kernel processes
// all chunks (single_kernel.cc): its tiles wait for the rows that their owners copy here, or for the partial sums that
// they add to; the copy engine sends sums to the next rank, or the kernel stores them there. Otherwise each chunk is a
// launch (launch_per_chunk.cc): the copy engine gathers a chunk while the previous one is multiplied, or sends partial
// sums to the next rank, which adds its own, while the next chunk is multiplied. Flags order work between devices. A
// rank waits for another one only if it needs its data, or before it overwrites memory that the other still reads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/machine/machine.h"
#include "ridge/plan/ranks/chunk_prediction.h"
#include "ridge/plan/ranks/chunk_schedule.h"
#include "ridge/run/device_steps.h"
#include "ridge/run/ranks/peer_memory.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {

// Device memory of a rank's slots: one allocation for each stored slot; `address_of` returns null for the others.
class SlotMemory {
 public:
  static Result<SlotMemory> make(const RankProgram& rank_program);
  std::byte* address_of(int slot) const;
  const device::DeviceBuffer& allocation(int slot) const { return *memory_[slot]; }

 private:
  std::vector<std::optional<device::DeviceBuffer>> memory_;
};

class ChunkedExecutor {
 public:
  struct ExecutorContext {
    const RankProgram& rank_program;
    const SlotMemory& slots;
    const Machine& machine;
    const RunOptions& options;
    ChunkOptions chunk_options;
    transport::Communicator& comm;
    PeerMemory& peer_memory;
    std::size_t first_flag;                  // first of the pair's flags
    std::optional<double> redistribution_s;  // redistribution alone, if it was measured
  };
  static std::size_t flags_per_pair(std::size_t ranks);  // number of flags that a pair needs
  struct ExecutorChoice {
    ChunkPrediction prediction;
    std::unique_ptr<ChunkedExecutor> executor;  // Is null if the unchunked steps are predicted to be as fast
  };
  // Collective call; rank 0's prediction decides for all ranks.
  static Result<ExecutorChoice> make(const ChunkedPair& pair, const ExecutorContext& context);
  virtual ~ChunkedExecutor() = default;

  const ChunkedPair& pair() const { return pair_; }
  virtual Status queue_pair(const device::Queue& queue) const = 0;
  // Queues the products without transfers, on arbitrary data, for timing.
  virtual Status queue_compute_only(const device::Queue& queue) const = 0;
  // Completes tensors that only verification reads: the gathered operand, or the partial sums before the reduction.
  Status complete_for_verify(const device::Queue& queue) const;

 protected:
  // Queues of a pair: two for computing, between which launches alternate, and two for copies.
  struct ExecutorQueues {
    device::Queue first, second, first_copy, second_copy;
    static Result<ExecutorQueues> make();
  };
  // Sequential copies, each followed by a flag, which is set together with the next wait or before the next copy.
  class FlaggedCopies {
   public:
    explicit FlaggedCopies(const device::Queue& queue) : queue_(&queue) {}
    using CopyWork = std::function<Status(const device::Queue&)>;
    Status queue_copy(const CopyWork& work, device::DeviceFlag* flag);
    Status wait_for_flag(const device::AwaitedFlag& flag);
    Status wait_for_queue(const device::Queue& other);
    Status set_pending_flags();

   private:
    const device::Queue* queue_;
    std::vector<device::DeviceFlag*> pending_flags_ = {};
  };

  ChunkedExecutor(const ChunkedPair& pair, const ExecutorContext& context, const ChunkPrediction& prediction,
                  ExecutorQueues queues);
  ChunkedExecutor(const ChunkedExecutor&) = delete;
  ChunkedExecutor& operator=(const ChunkedExecutor&) = delete;
  // Collective call that exchanges addresses; `build_kernels` is local.
  virtual Status share_memory() = 0;
  virtual Status build_kernels(const ChunkRequest& request) = 0;
  virtual std::int64_t chunk_count() const = 0;  // actual number of chunks per shard

  Result<DeviceSteps> make_unchunked_steps(const DeviceSteps::LaunchOptions& how) const;
  // Indices of flags. Ready: others may access this rank's memory. Chunk: the partial sums of a chunk have arrived.
  // Sum: the final sums of a chunk have arrived.
  std::size_t ready_flag() const { return first_flag_; }
  std::size_t chunk_flag(std::size_t step, std::size_t index) const {
    return first_flag_ + 1 + (step - 1) * max_chunks + index;
  }
  std::size_t sum_flag(std::size_t index) const { return chunk_flag(shards_.size(), index); }
  // Fork: the pair's queues wait for `queue`. Join: `queue` waits for the pair's queues.
  Status fork_queues(const device::Queue& queue) const;
  Status join_queues(const device::Queue& queue) const;
  // Queues a barrier of all ranks that uses this flag.
  Status queue_barrier(const device::Queue& queue, std::size_t flag) const;
  // All-reduce: waits until the final sums of another rank's shard have arrived, in `chunks` chunks.
  Status wait_for_sums(const RowShard& shard, std::size_t chunks) const;

  const ComputeStep& compute_step() const {
    return std::get<ComputeStep>(rank_program_->schedule().steps[pair_.compute_step]);
  }
  const Redistribution& redistribution_step() const {
    return std::get<Redistribution>(rank_program_->schedule().steps[pair_.redistribution_step]);
  }
  int redistributed_tensor_slot() const {
    return pair_.is_gather() ? redistribution_step().to : redistribution_step().from;
  }
  bool is_all_reduce() const { return pair_.kind == Collective::all_reduce; }
  std::int64_t row_bytes() const {
    return ranks::row_bytes(rank_program_->schedule(), pair_, rank_program_->mesh_device());
  }
  const RowShard& local_shard() const { return shards_[position_]; }
  const RowShard& shard_after(std::size_t steps) const { return shards_[(position_ + steps) % shards_.size()]; }
  const RowShard& shard_before(std::size_t steps) const { return shard_after(shards_.size() - steps % shards_.size()); }

  ChunkedPair pair_;
  const RankProgram* rank_program_;
  const SlotMemory* slots_;
  const RunOptions* options_;
  transport::Communicator* comm_;
  PeerMemory* peer_memory_;
  std::size_t first_flag_;
  ChunkPrediction prediction_;
  ExecutorQueues queues_;
  std::vector<RowShard> shards_ = {};
  std::size_t position_ = 0;
  std::vector<int> other_ranks_ = {};
  std::optional<DeviceSteps> unchunked_ = {};  // the compute step without chunks

 private:
  using Maker = std::unique_ptr<ChunkedExecutor> (*)(const ChunkedPair&, const ExecutorContext&, const ChunkPrediction&,
                                                     ExecutorQueues);
  static std::unique_ptr<ChunkedExecutor> make_launch_per_chunk(const ChunkedPair& pair, const ExecutorContext& context,
                                                                const ChunkPrediction& prediction,
                                                                ExecutorQueues queues);
  static std::unique_ptr<ChunkedExecutor> make_single_kernel(const ChunkedPair& pair, const ExecutorContext& context,
                                                             const ChunkPrediction& prediction, ExecutorQueues queues);
};

}  // namespace ridge::ranks
