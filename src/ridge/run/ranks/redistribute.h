// Redistribution of a tensor in host memory, by messages between ranks.
#pragma once

#include <vector>

#include "ridge/plan/ranks/communication_schedule.h"

namespace ridge::ranks {

class Redistributor {
 public:
  explicit Redistributor(CommunicationSchedule comm_schedule) : comm_schedule_(std::move(comm_schedule)) {}
  const CommunicationSchedule& comm_schedule() const { return comm_schedule_; }

  // Collective call. `from` and `to` are the rank's shards before and after the redistribution.
  Status exchange_shards(transport::Communicator& comm, const std::byte* from, std::byte* to);

 private:
  void unpack_received(std::byte* to);
  void reduce_received(std::byte* to);

  CommunicationSchedule comm_schedule_;
  std::vector<std::byte> staging_;  // allocated by the first call
};

// Copies a box from the memory of `block` to contiguous memory, and back.
void pack_box(const std::byte* from, const ShardBox& block, const ShardBox& box, std::int64_t width, std::byte* to);
void unpack_box(const std::byte* from, const ShardBox& box, const ShardBox& block, std::int64_t width, std::byte* to);

}  // namespace ridge::ranks
