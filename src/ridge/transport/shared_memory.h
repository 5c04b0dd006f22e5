// Communicator of ranks on one machine that exchange messages through shared memory. A waiting rank sleeps until
// another rank wakes it, so that more ranks than cores do not compete by spinning.
#pragma once

#include <vector>

#include "ridge/transport/communicator.h"
#include "ridge/transport/shared_segment.h"

namespace ridge::transport {

class SharedMemoryCommunicator final : public Communicator {
 public:
  // `timeout_s`: the time that this rank waits for another one before it ends the run.
  SharedMemoryCommunicator(const SharedSegment& segment, int rank, double timeout_s)
      : Communicator(rank, segment.ranks()), segment_(segment), timeout_s_(timeout_s) {}

  std::string_view transport_name() const override { return "shared memory"; }
  void abort_all(const Error& why) noexcept override { segment_.end_run(is_agreed_error(why) ? -1 : rank(), why); }

 private:
  Status transfer_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received) override;

  const SharedSegment& segment_;
  double timeout_s_;
};

}  // namespace ridge::transport
