// Communicator: the processes of one run, numbered from 0, which exchange messages. On one machine they use shared
// memory, across machines MPI (mpi.h). A transport only moves bytes. Collectives and their sums are
// implemented once on top of it (collectives.h), so that every transport gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge::transport {

struct SendRequest {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct ReceiveRequest {
  int from = 0;
  std::span<std::byte> bytes;  // must have the length of the message
};

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Number of ranks on this machine, this one included.
  virtual int local_size() const { return size_; }
  virtual int local_rank() const { return rank_; }      // index among the ranks of this machine
  virtual std::string_view transport_name() const = 0;  // for example "shared memory" or "Open MPI"

  // Sends and receives concurrently. Messages between two ranks arrive in the order of both lists; a rank never sends
  // to itself. Returns when all messages have arrived and the sent memory may be overwritten. Errors: a rank ended, a
  // timeout, a message of unexpected length. After an error nothing is sent any more: every call returns the first one.
  Status exchange_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received) {
    if (failure_) return *failure_;
    Status done = transfer_messages(sent, received);
    if (!done) failure_ = done.error();
    return done;
  }

  // Ends all other ranks. The first caller's error is reported, with its rank. After an error that all ranks agreed on
  // (`agree_on_status`) every rank ends by itself.
  virtual void abort_all(const Error& why) noexcept = 0;
  void record_agreed_error(const Error& why) { agreed_ = why; }

  std::int64_t bytes_sent() const { return bytes_sent_; }

  // Returns a receive buffer that is kept between calls: page faults of a new one cost more than the transfer.
  std::span<std::byte> scratch_buffer(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(new std::byte[bytes]);  // uninitialized on purpose
      scratch_bytes_ = bytes;
    }
    return {scratch_.get(), bytes};
  }

 protected:
  bool is_agreed_error(const Error& why) const noexcept { return agreed_ && *agreed_ == why; }
  void count_sent_bytes(std::span<const SendRequest> sent) {
    for (const SendRequest& one : sent) bytes_sent_ += static_cast<std::int64_t>(one.bytes.size());
  }

 private:
  virtual Status transfer_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received) = 0;

  int rank_, size_;
  std::int64_t bytes_sent_ = 0;
  std::optional<Error> agreed_ = {}, failure_ = {};
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

// Communicator of the first ranks of another one, for a grid that leaves some ranks idle (6 of 7).
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
