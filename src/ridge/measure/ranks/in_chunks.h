// A pair of acts in chunks (chunks.h) on devices that reach each other's memory. What is gathered is copied by the copy
// engine while the chunk before it is multiplied. Addends go from rank to rank: each adds its own to what came, as the
// product stores it, and the copy engine takes the sums on while the next chunk is multiplied. Where a kernel can go
// through all chunks, there is one launch, whose tiles wait for the addends that they need and count what they have
// stored; else a launch for each chunk. Bells say between devices what the order of a queue says on one: a rank waits
// for others only where it needs what they made, or where they still read what it is about to write.
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

class Copies;

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

  const ChunkedPair& pair() const { return pair_; }
  Status queue(const ops::cuda::Queue& queue) const;
  Status queue_computing(const ops::cuda::Queue& queue) const;  // alone, whatever its operands hold
  // What no act reads but a check wants to see: the whole gathered operand, the addends of its own piece.
  Status complete(const ops::cuda::Queue& queue) const;

 private:
  struct Chunk {
    RowPiece piece;
    Piece rows;              // of the piece
    Piece columns = {};      // in bytes, of what a row of it takes; those of the one kernel's chunks alone
    std::size_t step = 0;    // how many ranks have added to its sums before this one; gathered: how far it came
    std::size_t number = 0;  // of the piece's
    std::optional<DeviceSteps> steps = {};
  };
  // Chunks are multiplied on two queues by turns, so that the next one begins on multiprocessors that the last one
  // leaves, and their sums copied by turns. What one kernel makes is copied on one queue: two copies at once would
  // share the link, and the first would come late (docs/decisions/0026-sums-are-pushed.md).
  struct Queues {
    ops::cuda::Queue first, second, copies, more_copies;
    static Result<Queues> make();
  };
  InChunks(const ChunkedPair& pair, const Where& where, Queues queues);
  Status build(const ChunkQuestion& question);
  Status add_steps(Chunk& chunk) const;
  Result<DeviceSteps> whole_steps(const ops::ResultChunks& chunks) const;
  Status add_kernel();
  std::vector<std::byte*> lent_to(const Program& program, const Chunk& chunk) const;
  std::vector<Chunk> cut(const RowPiece& piece, std::size_t step) const;
  // Where the sums of a chunk's rows lie that this rank, or the one before it, adds to.
  std::byte* sums_of(const Chunk& chunk) const;
  std::byte* sums_before(const Chunk& chunk) const;
  Status copy_sums(const ops::cuda::Queue& queue, std::byte* to, const std::byte* from, const Chunk& chunk) const;
  // Bells: that a rank may be read or written to; that sums of a step have come; that a chunk's sum is whole.
  std::size_t ready() const { return first_bell_; }
  std::size_t told(std::size_t step, std::size_t number) const;
  std::size_t summed(std::size_t number) const { return told(pieces_.size(), number); }
  // What is queued on any of the others comes behind this one's; and the other way round.
  Status fork(const ops::cuda::Queue& queue) const;
  Status join(const ops::cuda::Queue& queue) const;
  const ops::cuda::Queue& computing(std::size_t turn) const { return turn % 2 == 0 ? queues_.first : queues_.second; }
  Status gather(const ops::cuda::Queue& queue) const;
  Status scatter(const ops::cuda::Queue& queue) const;
  Status scatter_chunk(const Chunk& chunk, std::size_t turn, Copies& copies) const;
  Status hear_sums() const;
  Status share();

  const Compute& compute() const { return std::get<Compute>(part_->acts().acts[pair_.compute]); }
  const Shift& shift() const { return std::get<Shift>(part_->acts().acts[pair_.shift]); }
  int between() const { return pair_.gathers() ? shift().to : shift().from; }
  std::int64_t row_bytes() const { return ranks::row_bytes(*part_, pair_); }
  std::int64_t line_bytes() const;
  std::int64_t element_bytes() const;
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
  Queues queues_;
  std::vector<RowPiece> pieces_ = {};
  std::size_t place_ = 0;
  std::vector<int> others_ = {};
  ChunkTimes times_ = {};
  std::vector<Chunk> chunks_ = {};          // in the order in which they are multiplied
  std::optional<DeviceSteps> whole_ = {};   // of complete()
  ops::ResultChunks walk_ = {};             // without rows: a launch for each chunk
  std::optional<DeviceSteps> kernel_ = {};  // that goes through all chunks; its words: how much of each is stored
  std::optional<ops::cuda::Memory> counts_ = {};
  // By rank, as seen from this device: where pieces are copied from, or sums pass; and where whole sums lie.
  std::vector<std::byte*> there_ = {}, sums_there_ = {};
};

}  // namespace ridge::ranks
