// Prefetch of later rows into shared memory while the current row is processed, without registers. A lane reads only
// what it has copied itself, so that no lane waits for another.
#pragma once

#include "ridge/tile/cuda/words.h"

namespace ridge::device {

constexpr int piece_bytes = 16;

// Copies the first `bytes` of `most` bytes from global memory and fills the rest with zeros.
template <int most> RIDGE_FN void copy_async(u32 to, const char* from, u32 bytes) {
  const u64 place = __cvta_generic_to_global(from);
  if constexpr (most == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(place), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(place), "n"(most), "r"(bytes)
                 : "memory");
}
// Closes the group of copies of one row.
RIDGE_FN void commit_row() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the copies of the last `rows` rows are in flight.
template <int rows> RIDGE_FN void wait_for_all_but() { asm volatile("cp.async.wait_group %0;" ::"n"(rows) : "memory"); }

// Shared memory for a tensor's vectors of the rows in flight, in 16-byte units; each lane has its own addresses.
template <class S, Form form_, int rows_> struct Prefetched {
  static constexpr Form form = form_;
  static constexpr int rows = rows_, pieces = S::width * size_of<form> / piece_bytes;
  static constexpr int in_piece = piece_bytes / size_of<form>;  // elements of a copy
  u32 begin;                                                    // this lane's first address

  RIDGE_FN u32 place(u32 turn, int vector, int piece) const {
    return begin + ((turn % rows * S::vectors + vector) * pieces + piece) * (S::threads * piece_bytes);
  }
  RIDGE_FN Pack<form, S::width> pack(u32 turn, int vector) const {
    Pack<form, S::width> x;
#pragma unroll
    for (int i = 0; i < pieces; ++i)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.word[4 * i]), "=r"(x.word[4 * i + 1]), "=r"(x.word[4 * i + 2]), "=r"(x.word[4 * i + 3])
                   : "r"(place(turn, vector, i))
                   : "memory");
    return x;
  }
};

// A row that all rows of a kernel read (such as weights), in shared memory in element order. One more vector precedes
// the first of each block, so that a lane can read at the same shift as its elements of an unaligned row.
template <class S, Form form_> struct KeptInOrder {
  static constexpr Form form = form_;
  static constexpr int vector = S::width * size_of<form>, piece = vector < piece_bytes ? vector : piece_bytes;
  static constexpr int in_piece = piece / size_of<form>;
  u32 begin;

  RIDGE_FN u32 place(int k, int lane) const { return begin + (k * (S::threads + 1) + 1 + lane) * vector; }
  RIDGE_FN Pack<form, S::width> pack(int k, int shift) const {
    using P = Pack<form, S::width>;
    constexpr int words = P::words + (size_of<form> < 4 ? 1 : 0);
    const u32 at = place(k, threadIdx.x) - shift * size_of<form>;
    u32 word[words];
#pragma unroll
    for (int i = 0; i < words; ++i)
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word[i]) : "r"((at & ~3u) + 4 * i) : "memory");
    P x;
#pragma unroll
    for (int i = 0; i < P::words; ++i) {
      if constexpr (words == P::words)
        x.word[i] = word[i];
      else
        x.word[i] = __funnelshift_r(word[i], word[i + 1], at % 4 * 8);
    }
    return x;
  }
};

}  // namespace ridge::device
