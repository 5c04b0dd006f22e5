// The ranks' devices on one machine as they reach each other's memory: pieces are read there, and sums written there,
// by the copy engine, which leaves the multiprocessors alone, and bells say when that may be done and when it was.
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/peers.h"
#include "ridge/transport/ranks.h"

namespace ridge::ranks {

// Memory of this device that others may be shown: an allocation of its own, since CUDA names whole ones.
Result<ops::cuda::Memory> shared_memory(std::int64_t bytes);

struct Links {                                   // between devices that all copy at once; s
  double bytes_per_s = 0, read_bytes_per_s = 0;  // written there; read from there
  // Of each copy beside its bytes, with its bell, where copies follow each other; and with a wait for what it copies.
  double copy_s = 0, awaited_copy_s = 0;
  double wait_s = 0;  // of a short copy behind a bell
  double bell_s = 0;  // of a bell that all ring
};

class Reach {
 public:
  // To be called by all ranks at once, as share() is; with so many bells from each rank to each other. None where some
  // device does not reach another's memory.
  static Result<std::unique_ptr<Reach>> make(transport::Ranks& ranks, std::size_t bells);

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  // Where every rank's memory of that name lies, as seen from this device; its own among them. Stays open.
  Result<std::vector<std::byte*>> share(const ops::cuda::Memory& memory);

  // On a queue: rings there; and waits until each of these has rung here, from when on they may ring again (peers.h).
  Status ring(const ops::cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const;
  Status hear(const ops::cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const;

  // The word that this rank rings there.
  ops::cuda::Bell* word_of(int other, std::size_t bell) const {
    return bell_of(theirs_[static_cast<std::size_t>(other)], bell, rank());
  }

  const Links& links() const { return links_; }  // measured as it was made; rank 0's numbers

 private:
  Reach(transport::Ranks& ranks, std::size_t count, ops::cuda::Memory bells)
      : ranks_(&ranks), count_(count), bells_(std::move(bells)) {}
  ops::cuda::Bell* bell_of(std::byte* bells, std::size_t bell, int other) const;
  Status measure();

  transport::Ranks* ranks_;
  std::size_t count_;               // of bells that each rank has here
  ops::cuda::Memory bells_;         // by bell and rank
  std::vector<std::byte*> theirs_;  // bells
  std::vector<ops::cuda::PeerMemory> open_;
  Links links_;
};

}  // namespace ridge::ranks
