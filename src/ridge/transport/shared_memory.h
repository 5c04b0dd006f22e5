// Communicator of ranks on one machine that exchange messages through shared memory. A waiting rank sleeps until
// another rank wakes it, so that more ranks than cores do not compete by spinning.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/transport/byte_ring.h"
#include "ridge/transport/communicator.h"

namespace ridge::transport {

// Shared memory of the ranks on one machine: a header, a wake counter for each rank, and a byte ring for each ordered
// pair of ranks. It is an anonymous mapping that forked ranks inherit, so that no file remains when a process dies.
inline constexpr int max_shared_ranks = 256;

class SharedSegment {
 public:
  // Errors: `ranks` is not in 1 to `max_shared_ranks` (kind usage); not enough memory.
  static Result<SharedSegment> make(int ranks);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  int ranks() const { return ranks_; }
  ByteRing ring_between(int from, int to) const;

  // Counts calls of `wake_rank`. `sleep_until_woken` returns if the count is not `seen`, or after `seconds`.
  std::uint32_t wake_count(int rank) const;
  void wake_rank(int rank) const;
  void sleep_until_woken(int rank, std::uint32_t seen, double seconds) const;

  // Records why the run ends and wakes all ranks. Only the first call counts. `rank` is -1 if no single rank caused it.
  void end_run(int rank, const Error& why) const noexcept;
  struct RunEnd {
    int rank = -1;
    Error why;
  };
  std::optional<RunEnd> run_end() const;  // nullopt while the run goes on

 private:
  struct SegmentHeader;
  struct WakeCounter;
  SharedSegment(std::byte* memory, std::size_t bytes, int ranks, std::uint64_t ring_bytes);
  SegmentHeader& header() const;
  WakeCounter& wake_counter(int rank) const;

  std::byte* memory_;
  std::size_t bytes_;
  int ranks_;
  std::uint64_t ring_bytes_;
};

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
