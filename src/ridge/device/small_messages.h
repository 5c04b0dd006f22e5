// Collectives of few bytes between devices that reach each other's memory, each one kernel: every rank writes what the
// others need into their rooms, tells them, waits for what they write into its own, and takes it from there. Sums are
// taken in the order of the ranks, in f32 (of whole numbers exactly), and rounded once: every rank has the same bits.
#pragma once

#include <array>

#include "ridge/base/dtype.h"
#include "ridge/device/peers.h"

namespace ridge::ops::cuda {

inline constexpr int most_small_ranks = 8;
inline constexpr int small_blocks = 64;

// A rank's room for what comes: twice, since one may write already what the next call needs while another one still
// reads; and how often each block of each rank has written.
struct SmallRoom {
  std::int64_t capacity = 0;  // bytes from one rank, a multiple of 16
  int ranks = 1;
  constexpr std::int64_t data_bytes() const { return 2 * capacity * ranks; }
  std::int64_t bytes() const;  // with the counts, which are 0 at first
};

using Count = std::uint32_t;
struct SmallMessage {
  int rank = 0;
  std::array<std::byte*, most_small_ranks> rooms = {};  // of every rank, as seen from this device
  Count* calls = nullptr;                               // small_blocks of this rank's own, 0 at first
  // To rank r go `bytes` from `from` + r * apart; what comes from r goes to `to` + r * bytes, or is added up there.
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, apart = 0;
  bool sums = false;
  DType dtype = DType::f32;
};
// `from`, `to` and `apart` at multiples of 16; where `bytes` is none, memory up to the next one is read and written as
// well. All ranks call it with the same `bytes`. Error: more bytes than the room has, more ranks than most_small_ranks.
Status send_small(const Queue& queue, const SmallRoom& room, const SmallMessage& message);

}  // namespace ridge::ops::cuda
