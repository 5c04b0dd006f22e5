// A pair of acts in chunks (chunks.h) on devices that reach each other's memory. Where one kernel can do the pair's
// product it goes through all chunks (one_kernel.cc): its tiles wait for the rows that they need, which whoever has
// them copies here, or for the sums that they add to; the copy engine sends sums on, or the kernel stores them where
// their ranks want them. Else there is a launch for each chunk (in_launches.cc): what is gathered is copied by the copy
// engine while the chunk before it is multiplied; addends go from rank to rank, each adds its own to what came, and the
// copy engine takes the sums on while the next chunk is multiplied. Bells say between devices what the order of a queue
// says on one: a rank waits for others only where it needs what they made, or where they still read what it is about to
// write.
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
    std::size_t bell;                // the first of bells()
    std::optional<double> moving_s;  // the move alone, where it was timed
  };
  static std::size_t bells(std::size_t ranks);  // that a pair needs
  struct Made {
    ChunkTimes times;
    std::unique_ptr<InChunks> chunks;  // null: in turn is predicted to be as fast
  };
  // To be called by all ranks at once; rank 0 decides.
  static Result<Made> make(const ChunkedPair& pair, const Where& where);
  virtual ~InChunks() = default;

  const ChunkedPair& pair() const { return pair_; }
  virtual Status queue(const ops::cuda::Queue& queue) const = 0;
  virtual Status queue_computing(const ops::cuda::Queue& queue) const = 0;  // alone, whatever its operands hold
  // What no act reads but a check wants to see: the whole gathered operand, the addends of its own piece.
  Status complete(const ops::cuda::Queue& queue) const;

 protected:
  // On what a pair is queued: what is computed, by turns where there are several launches, and what is copied.
  struct Queues {
    ops::cuda::Queue first, second, copies, more_copies;
    static Result<Queues> make();
  };
  // Copies one behind the other, with bells behind them: which ring when the queue waits for the next chunk, or before
  // the next copy.
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
  // All ranks at once; then each for itself.
  virtual Status share() = 0;
  virtual Status build(const ChunkQuestion& question) = 0;
  virtual std::int64_t chunks() const = 0;  // of a piece, as they were made

  Result<DeviceSteps> whole_steps(const DeviceSteps::How& how) const;
  // Bells: that a rank may be read or written to; that sums of a step have come; that a chunk's sum is whole.
  std::size_t ready() const { return first_bell_; }
  std::size_t told(std::size_t step, std::size_t number) const {
    return first_bell_ + 1 + (step - 1) * most_chunks + number;
  }
  std::size_t summed(std::size_t number) const { return told(pieces_.size(), number); }
  // What is queued on any of the others comes behind this one's; and the other way round.
  Status fork(const ops::cuda::Queue& queue) const;
  Status join(const ops::cuda::Queue& queue) const;
  // All say by this bell that they have come so far, and wait until all others have.
  Status meet(const ops::cuda::Queue& queue, std::size_t bell) const;
  // Of an all-reduce: until the whole sums of another one's piece have come, in so many chunks.
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
  std::optional<DeviceSteps> whole_ = {};  // the act's, with nothing shared

 private:
  using Maker = std::unique_ptr<InChunks> (*)(const ChunkedPair&, const Where&, const ChunkTimes&, Queues);
  static std::unique_ptr<InChunks> in_launches(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                               Queues queues);
  static std::unique_ptr<InChunks> by_one_kernel(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                                 Queues queues);
};

}  // namespace ridge::ranks
