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

#include "ridge/machine/machine.h"
#include "ridge/measure/device_steps.h"
#include "ridge/measure/ranks/chunk_times.h"
#include "ridge/measure/ranks/chunks.h"
#include "ridge/measure/ranks/part.h"
#include "ridge/measure/ranks/reach.h"
#include "ridge/measure/ranks/slot_memory.h"

namespace ridge::ranks {

class InChunks {
 public:
  struct Where {
    const Part& part;
    const SlotMemory& slots;
    const Machine& machine;
    const RunOptions& options;
    Chunks how;
    transport::Ranks& ranks;
    Reach& reach;
    std::size_t bell;                // first of the pair's flags
    std::optional<double> moving_s;  // redistribution alone, if it was measured
  };
  static std::size_t bells(std::size_t ranks);  // number of flags that a pair needs
  struct Made {
    ChunkTimes times;
    std::unique_ptr<InChunks> chunks;  // is null if running in turn is predicted to be as fast
  };
  // Collective call; rank 0's prediction decides for all ranks.
  static Result<Made> make(const ChunkedPair& pair, const Where& where);
  virtual ~InChunks() = default;

  const ChunkedPair& pair() const { return pair_; }
  virtual Status queue(const ops::cuda::Queue& queue) const = 0;
  // Queues the products without transfers, on arbitrary data, for timing.
  virtual Status queue_computing(const ops::cuda::Queue& queue) const = 0;
  // Completes tensors that only verification reads: the gathered operand, or the partial sums before the reduction.
  Status complete(const ops::cuda::Queue& queue) const;

 protected:
  // Queues of a pair: two for computing, between which launches alternate, and two for copies.
  struct Queues {
    ops::cuda::Queue first, second, copies, more_copies;
    static Result<Queues> make();
  };
  // Sequential copies, each followed by a flag, which is set together with the next wait or before the next copy.
  class Copies {
   public:
    explicit Copies(const ops::cuda::Queue& queue) : queue_(&queue) {}
    using Work = std::function<Status(const ops::cuda::Queue&)>;
    Status copy(const Work& work, ops::cuda::Bell* bell);
    Status await(const ops::cuda::Heard& word);
    Status follow(const ops::cuda::Queue& other);
    Status ring();

   private:
    const ops::cuda::Queue* queue_;
    std::vector<ops::cuda::Bell*> bells_ = {};
  };

  InChunks(const ChunkedPair& pair, const Where& where, const ChunkTimes& times, Queues queues);
  InChunks(const InChunks&) = delete;
  InChunks& operator=(const InChunks&) = delete;
  // Collective call that exchanges addresses; `build_kernels` is local.
  virtual Status share() = 0;
  virtual Status build(const ChunkQuestion& question) = 0;
  virtual std::int64_t chunks() const = 0;  // actual number of chunks per shard

  Result<DeviceSteps> whole_steps(const DeviceSteps::How& how) const;
  // Flags: a rank's memory may be read or written; partial sums of a step, or the final sum of a chunk, have arrived.
  std::size_t ready() const { return first_bell_; }
  std::size_t told(std::size_t step, std::size_t number) const {
    return first_bell_ + 1 + (step - 1) * most_chunks + number;
  }
  std::size_t summed(std::size_t number) const { return told(pieces_.size(), number); }
  // Fork: the pair's queues wait for `queue`. Join: `queue` waits for the pair's queues.
  Status fork(const ops::cuda::Queue& queue) const;
  Status join(const ops::cuda::Queue& queue) const;
  // Queues a barrier of all ranks that uses this flag.
  Status meet(const ops::cuda::Queue& queue, std::size_t bell) const;
  // All-reduce: waits until the final sums of another rank's shard have arrived, in `chunks` chunks.
  Status hear_sums(const RowPiece& piece, std::size_t chunks) const;

  const Compute& compute() const { return std::get<Compute>(part_->acts().acts[pair_.compute]); }
  const Shift& shift() const { return std::get<Shift>(part_->acts().acts[pair_.shift]); }
  int between() const { return pair_.gathers() ? shift().to : shift().from; }
  bool reduces() const { return pair_.kind == Collective::all_reduce; }
  std::int64_t row_bytes() const { return ranks::row_bytes(*part_, pair_); }
  const RowPiece& mine() const { return pieces_[place_]; }
  const RowPiece& after(std::size_t steps) const { return pieces_[(place_ + steps) % pieces_.size()]; }
  const RowPiece& before(std::size_t steps) const { return after(pieces_.size() - steps % pieces_.size()); }

  ChunkedPair pair_;
  const Part* part_;
  const SlotMemory* slots_;
  const RunOptions* options_;
  transport::Ranks* ranks_;
  Reach* reach_;
  std::size_t first_bell_;
  ChunkTimes times_;
  Queues queues_;
  std::vector<RowPiece> pieces_ = {};
  std::size_t place_ = 0;
  std::vector<int> others_ = {};
  std::optional<DeviceSteps> whole_ = {};  // the compute step without chunks

 private:
  using Maker = std::unique_ptr<InChunks> (*)(const ChunkedPair&, const Where&, const ChunkTimes&, Queues);
  static std::unique_ptr<InChunks> in_launches(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                               Queues queues);
  static std::unique_ptr<InChunks> by_one_kernel(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                                 Queues queues);
};

}  // namespace ridge::ranks
