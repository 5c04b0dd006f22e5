// Processes that take part in one run, numbered from 0, and exchange pieces of memory: on one machine through shared
// memory (shared.h), across machines through MPI (mpi.h). A carrier moves pieces and nothing else: what is made of
// them, sums included, is written once above it (collectives.h), so that every carrier gives the same bits.
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
  std::span<std::byte> piece;  // as long as what comes
};

class Ranks {
 public:
  Ranks(int rank, int size) : rank_(rank), size_(size) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Of them those that share this one's processors and memory.
  virtual int neighbours() const { return size_; }
  virtual int local_rank() const { return rank_; }  // among these
  virtual std::string_view carrier() const = 0;     // "shared memory", "Open MPI"

  // Sends and receives at once. Between two ranks pieces arrive in the order of both lists; none goes to the rank
  // itself. Returns when what is received is there and what is sent may be written again. Errors: a rank that ended,
  // one that let this one wait too long, a piece of another length; the ranks are of no use afterwards, but for
  // abandon().
  virtual Status exchange(std::span<const Sent> sent, std::span<const Received> received) = 0;

  // Ends the others as well; the first who calls it says why, with its rank; of an error that all have agreed on
  // (collectives.h) all end by themselves.
  virtual void abandon(const Error& why) noexcept = 0;
  void note_agreed(const Error& why) { agreed_ = why; }

  std::int64_t bytes_sent() const { return bytes_sent_; }

  // Memory to receive into, kept from one call to the next, for fresh pages cost more than what comes into them.
  std::span<std::byte> scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(new std::byte[bytes]);  // not cleared
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
