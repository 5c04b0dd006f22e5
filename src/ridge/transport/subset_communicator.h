// Communicator of the first ranks of another one, for a grid that leaves some ranks idle (6 of 7).
#pragma once

#include "ridge/transport/communicator.h"

namespace ridge::transport {

class SubsetCommunicator final : public Communicator {
 public:
  SubsetCommunicator(Communicator& parent, int subset_size)
      : Communicator(parent.rank(), subset_size), parent_(parent) {}
  int local_size() const override { return parent_.local_size() < size() ? parent_.local_size() : size(); }
  int local_rank() const override { return parent_.local_rank(); }
  std::string_view transport_name() const override { return parent_.transport_name(); }
  void abort_all(const Error& why) noexcept override {
    if (is_agreed_error(why)) parent_.record_agreed_error(why);
    parent_.abort_all(why);
  }

 private:
  Status transfer_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received) override {
    count_sent_bytes(sent);
    return parent_.exchange_messages(sent, received);
  }

  Communicator& parent_;
};

}  // namespace ridge::transport
