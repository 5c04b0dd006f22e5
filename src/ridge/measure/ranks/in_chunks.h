// A pair of acts in chunks (chunks.h) on devices that reach each other's memory. What is gathered is copied by the copy
// engine while the chunk before it is multiplied; addends are stored by the product itself in the memory of whoever
// adds them up. Bells say between devices what the order of a queue says on one: a rank waits for others only where it
// needs what they made, or where they still read what it is about to write.
#pragma once

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
    std::size_t bell;  // the first of three
  };
  static constexpr std::size_t bells = 3;
  struct Made {
    ChunkTimes times;
    std::unique_ptr<InChunks> chunks;  // null: in turn is predicted to be as fast
  };
  // To be called by all ranks at once; rank 0 decides.
  static Result<Made> make(const ChunkedPair& pair, const Where& where);

  const ChunkedPair& pair() const { return pair_; }
  Status queue(const ops::cuda::Queue& queue) const;
  Status queue_computing(const ops::cuda::Queue& queue) const;  // alone, whatever its operands hold
  // What no act reads but a check wants to see: the whole gathered operand, the addends of its own piece.
  Status complete(const ops::cuda::Queue& queue) const;

 private:
  struct Chunk {
    int rank = 0;
    Piece rows;
    std::optional<DeviceSteps> steps;
  };
  // Chunks are multiplied on the caller's queue and `second` by turns, so that the next one begins on multiprocessors
  // that the last one leaves.
  struct Queues {
    ops::cuda::Queue second, bells, heard, copies, sums;
    static Result<Queues> make();
  };
  InChunks(const ChunkedPair& pair, const Where& where, Queues queues);
  Status build();
  Status add_chunk(std::vector<Chunk>& to, const RowPiece& piece, bool last);
  Result<std::vector<std::byte*>> lent_to(const Program& program, const RowPiece& piece, bool last) const;
  // What is queued on any of the others comes behind this one's; and the other way round.
  Status fork(const ops::cuda::Queue& queue) const;
  Status join(const ops::cuda::Queue& queue) const;
  const ops::cuda::Queue& by_turns(const ops::cuda::Queue& queue, std::size_t chunk) const {
    return chunk % 2 == 0 ? queue : queues_.second;
  }
  Status tell(const ops::cuda::Queue& after, std::size_t bell, const std::vector<int>& others) const;
  Status gather(const ops::cuda::Queue& queue) const;
  Status scatter(const ops::cuda::Queue& queue) const;
  Status take_sums() const;
  Status make_room();
  Status share();

  const Compute& compute() const { return std::get<Compute>(part_->acts().acts[pair_.compute]); }
  const Shift& shift() const { return std::get<Shift>(part_->acts().acts[pair_.shift]); }
  int between() const { return pair_.gathers() ? shift().to : shift().from; }
  std::int64_t row_bytes() const { return ranks::row_bytes(*part_, pair_); }
  const RowPiece& mine() const { return pieces_[place_]; }
  const RowPiece& behind(std::size_t steps) const {
    return pieces_[(place_ + pieces_.size() - steps) % pieces_.size()];
  }

  ChunkedPair pair_;
  const Part* part_;
  const SlotMemory* slots_;
  const RunOptions* options_;
  transport::Ranks* ranks_;
  Reach* reach_;
  std::size_t told_, summed_, read_;  // bells
  Queues queues_;
  std::vector<RowPiece> pieces_ = {};
  std::size_t place_ = 0;
  std::vector<int> others_ = {};
  ChunkTimes times_ = {};
  std::vector<Chunk> theirs_ = {}, own_ = {};  // in the order in which they are multiplied
  std::optional<DeviceSteps> whole_ = {};      // of complete()
  // What the others made of this one's piece, a segment for each place: they store it here themselves.
  std::optional<ops::cuda::Memory> come_ = {};
  // By rank, as seen from this device: where pieces are copied from, or sums stored; and where whole sums lie.
  std::vector<std::byte*> there_ = {}, sums_there_ = {};
};

}  // namespace ridge::ranks
