// Shared memory of the ranks on one machine: a header, a wake counter for each rank, and a byte ring for each ordered
// pair of ranks. It is an anonymous mapping that forked ranks inherit, so that no file remains when a process dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "ridge/base/result.h"
#include "ridge/transport/ring.h"

namespace ridge::transport {

inline constexpr int most_shared_ranks = 256;

class Segment {
 public:
  // Errors: `ranks` is not in 1 to `max_shared_ranks` (kind usage); not enough memory.
  static Result<Segment> make(int ranks);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  int ranks() const { return ranks_; }
  Ring ring(int from, int to) const;

  // Counts calls of `wake_rank`. `sleep_until_woken` returns if the count is not `seen`, or after `seconds`.
  std::uint32_t bell(int rank) const;
  void ring_bell(int rank) const;
  void sleep(int rank, std::uint32_t seen, double seconds) const;

  // Records why the run ends and wakes all ranks. Only the first call counts. `rank` is -1 if no single rank caused it.
  void end(int rank, const Error& why) const noexcept;
  struct Ended {
    int rank = -1;
    Error why;
  };
  std::optional<Ended> ended() const;  // nullopt while the run goes on

 private:
  struct Head;
  struct Bell;
  Segment(std::byte* memory, std::size_t bytes, int ranks, std::uint64_t ring_bytes);
  Head& head() const;
  Bell& bell_of(int rank) const;

  std::byte* memory_;
  std::size_t bytes_;
  int ranks_;
  std::uint64_t ring_bytes_;
};

}  // namespace ridge::transport
