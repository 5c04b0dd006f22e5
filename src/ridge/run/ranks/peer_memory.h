// Peer access between the devices of ranks on one machine. The copy engine reads and writes peer memory without using
// multiprocessors. Flags in device memory signal when that is allowed and when it is done.
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/peers.h"
#include "ridge/plan/ranks/chunk_prediction.h"
#include "ridge/transport/communicator.h"

namespace ridge::ranks {

// Allocates device memory that other processes can open. CUDA exports entire allocations, so it has one of its own.
Result<device::DeviceBuffer> allocate_exportable_memory(std::int64_t bytes);

class PeerMemory {
 public:
  // Collective call, like `open_on_all_ranks`. `flags` is the number of flags for each ordered pair of ranks. Returns
  // null if some device has no access to another's memory.
  static Result<std::unique_ptr<PeerMemory>> make(transport::Communicator& comm, std::size_t flags);

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  // Returns the addresses of every rank's `memory`, as mapped on this device. The mappings stay open.
  Result<std::vector<std::byte*>> open_on_all_ranks(const device::DeviceBuffer& memory);

  // Queue work that sets a flag on other ranks, or that waits until each of them has set it here and resets it.
  Status set_flags(const device::Queue& queue, std::size_t flag, const std::vector<int>& others) const;
  Status wait_and_reset_flags(const device::Queue& queue, std::size_t flag, const std::vector<int>& others) const;

  // Returns the address of the flag that this rank sets on `other`.
  device::DeviceFlag* peer_flag(int other, std::size_t flag) const {
    return flag_address(peer_flags_[other], flag, rank());
  }

  const LinkCosts& link_costs() const { return link_costs_; }  // measured by `make`; rank 0's values on all ranks

 private:
  PeerMemory(transport::Communicator& comm, std::size_t count, device::DeviceBuffer flags)
      : comm_(&comm), flag_count_(count), flags_(std::move(flags)) {}
  device::DeviceFlag* flag_address(std::byte* flags, std::size_t flag, int other) const;
  Status queue_link_work(const device::Queue& queue, std::size_t kind, std::byte* peer, std::byte* own) const;
  Status measure_links();

  transport::Communicator* comm_;
  std::size_t flag_count_;              // flags for each rank
  device::DeviceBuffer flags_;          // flags that others set here, by flag and rank
  std::vector<std::byte*> peer_flags_;  // flags on each rank
  std::vector<device::ImportedMemory> mapped_;
  LinkCosts link_costs_;
};

}  // namespace ridge::ranks
