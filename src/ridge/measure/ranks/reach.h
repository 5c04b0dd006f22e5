// Peer access between the devices of ranks on one machine. The copy engine reads and writes peer memory without using
// multiprocessors. Flags in device memory signal when that is allowed and when it is done.
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/peers.h"
#include "ridge/transport/ranks.h"

namespace ridge::ranks {

// Allocates device memory that other processes can open. CUDA exports entire allocations, so it has one of its own.
Result<ops::cuda::Memory> shared_memory(std::int64_t bytes);

struct Links {                                   // measured while all devices copy concurrently
  double bytes_per_s = 0, read_bytes_per_s = 0;  // bandwidth of writing to and reading from a peer
  // Fixed seconds of a copy with its flag in a sequence of copies, without and with a wait for its data.
  double copy_s = 0, awaited_copy_s = 0;
  double wait_s = 0;  // seconds of a short copy and its flag
  double bell_s = 0;  // seconds of a flag exchange between adjacent ranks
};

class Reach {
 public:
  // Collective call, like `open_on_all_ranks`. `flags` is the number of flags for each ordered pair of ranks. Returns
  // null if some device has no access to another's memory.
  static Result<std::unique_ptr<Reach>> make(transport::Ranks& ranks, std::size_t bells);

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  // Returns the addresses of every rank's `memory`, as mapped on this device. The mappings stay open.
  Result<std::vector<std::byte*>> share(const ops::cuda::Memory& memory);

  // Queue: set a flag on other ranks; wait until each of them has set it here, which clears it (device/peers.h).
  Status ring(const ops::cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const;
  Status hear(const ops::cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const;

  // Returns the address of the flag that this rank sets on `other`.
  ops::cuda::Bell* word_of(int other, std::size_t bell) const {
    return bell_of(theirs_[static_cast<std::size_t>(other)], bell, rank());
  }

  const Links& links() const { return links_; }  // measured by `make`; rank 0's values on all ranks

 private:
  Reach(transport::Ranks& ranks, std::size_t count, ops::cuda::Memory bells)
      : ranks_(&ranks), count_(count), bells_(std::move(bells)) {}
  ops::cuda::Bell* bell_of(std::byte* bells, std::size_t bell, int other) const;
  Status measure();

  transport::Ranks* ranks_;
  std::size_t count_;               // flags for each rank
  ops::cuda::Memory bells_;         // flags that others set here, by flag and rank
  std::vector<std::byte*> theirs_;  // flags on each rank
  std::vector<ops::cuda::PeerMemory> open_;
  Links links_;
};

}  // namespace ridge::ranks
