// The memory that ranks on one machine share: a head, a bell for each rank, and a ring from each rank to each other
// one. It has no name in the file system, so that nothing is left behind whoever dies: the ranks inherit it from the
// process that starts them.
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
  // Errors: of kind usage, ranks outside 1 to most_shared_ranks; the system has no memory for it.
  static Result<Segment> make(int ranks);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  int ranks() const { return ranks_; }
  Ring ring(int from, int to) const;

  // What happened to a rank is counted; it sleeps until the count changes, at most so long.
  std::uint32_t bell(int rank) const;
  void ring_bell(int rank) const;
  void sleep(int rank, std::uint32_t seen, double seconds) const;

  // Says, once and for all, why the run ends, and wakes everyone. `rank` -1: nobody's fault. The first one counts.
  void end(int rank, const Error& why) const noexcept;
  struct Ended {
    int rank = -1;
    Error why;
  };
  std::optional<Ended> ended() const;  // none: it goes on

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
