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

struct Sent {
  int to = 0;
  std::span<const std::byte> piece;
};
struct Received {
  int from = 0;
  std::span<std::byte> piece;  // must have the length of the message
};

class Ranks {
 public:
  Ranks(int rank, int size) : rank_(rank), size_(size) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Number of ranks on this machine, this one included.
  virtual int neighbours() const { return size_; }
  virtual int local_rank() const { return rank_; }  // index among the ranks of this machine
  virtual std::string_view carrier() const = 0;     // for example "shared memory" or "Open MPI"

  // Sends and receives concurrently. Messages between two ranks arrive in the order of both lists; a rank never sends
  // to itself. Returns when all messages have arrived and the sent memory may be overwritten. Errors: a rank ended, a
  // timeout, a message of unexpected length. After an error only `abort_all` may be called.
  virtual Status exchange(std::span<const Sent> sent, std::span<const Received> received) = 0;

  // Ends all other ranks. The first caller's error is reported, with its rank. After an error that all ranks agreed on
  // (`agree_on_status`) every rank ends by itself.
  virtual void abandon(const Error& why) noexcept = 0;
  void note_agreed(const Error& why) { agreed_ = why; }

  std::int64_t bytes_sent() const { return bytes_sent_; }

  // Returns a receive buffer that is kept between calls: page faults of a new one cost more than the transfer.
  std::span<std::byte> scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(new std::byte[bytes]);  // uninitialized on purpose
      scratch_bytes_ = bytes;
    }
    return {scratch_.get(), bytes};
  }

 protected:
  bool is_agreed(const Error& why) const noexcept { return agreed_ && *agreed_ == why; }
  void count(std::span<const Sent> sent) {
    for (const Sent& one : sent) bytes_sent_ += static_cast<std::int64_t>(one.piece.size());
  }

 private:
  int rank_, size_;
  std::int64_t bytes_sent_ = 0;
  std::optional<Error> agreed_ = {};
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace ridge::transport
