// Communicator of ranks on one machine that exchange messages through shared memory. A waiting rank sleeps until
// another rank wakes it, so that more ranks than cores do not compete by spinning.
#pragma once

#include <vector>

#include "ridge/transport/ranks.h"
#include "ridge/transport/segment.h"

namespace ridge::transport {

class SharedRanks final : public Ranks {
 public:
  // `timeout_s`: the time that this rank waits for another one before it ends the run.
  SharedRanks(const Segment& segment, int rank, double patience_s)
      : Ranks(rank, segment.ranks()), segment_(segment), patience_s_(patience_s) {}

  std::string_view carrier() const override { return "shared memory"; }
  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override;
  void abandon(const Error& why) noexcept override { segment_.end(is_agreed(why) ? -1 : rank(), why); }

 private:
  const Segment& segment_;
  double patience_s_;
};

}  // namespace ridge::transport
