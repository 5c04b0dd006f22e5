// Prefetch of later rows into shared memory while the current row is processed; no registers hold the data. A lane
// reads only data that the lane has copied itself, so that no lane waits for another.
#pragma once

#include "ridge/tile/cuda/vector_access.h"

namespace ridge::tile::cuda {

constexpr int async_copy_bytes = 16;

// Copies the first `bytes` of `max_bytes` bytes from global to shared memory and fills the rest with zeros.
template <int max_bytes> RIDGE_FN void copy_async(u32 to, const char* from, u32 bytes) {
  const u64 address = __cvta_generic_to_global(from);
  if constexpr (max_bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(address), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(address), "n"(max_bytes), "r"(bytes)
                 : "memory");
}
// Commits the copies of one row as a group.
RIDGE_FN void commit_row() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the copies of the last `rows` rows are in flight.
template <int rows> RIDGE_FN void wait_for_all_but() { asm volatile("cp.async.wait_group %0;" ::"n"(rows) : "memory"); }

// Shared memory for prefetched rows of a tensor, in units of 16 bytes; each lane has its own addresses.
template <class S, NumberFormat format_, int rows_> struct PrefetchBuffer {
  static constexpr NumberFormat format = format_;
  static constexpr int rows = rows_, copies = S::width * size_of<format> / async_copy_bytes;
  static constexpr int elements_per_copy = async_copy_bytes / size_of<format>;  // elements of a copy
  u32 begin;  // shared address of this lane's first vector

  RIDGE_FN u32 address_of(u32 iteration, int vector, int piece) const {
    return begin + ((iteration % rows * S::vectors + vector) * copies + piece) * (S::threads * async_copy_bytes);
  }
  RIDGE_FN Pack<format, S::width> load_pack(u32 iteration, int vector) const {
    Pack<format, S::width> x;
#pragma unroll
    for (int i = 0; i < copies; ++i)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.word[4 * i]), "=r"(x.word[4 * i + 1]), "=r"(x.word[4 * i + 2]), "=r"(x.word[4 * i + 3])
                   : "r"(address_of(iteration, vector, i))
                   : "memory");
    return x;
  }
};

// A row that a kernel needs for all rows (such as weights), in shared memory in element order. An extra vector precedes
// the first vector of each block, so that a lane can read with the same shift as in an unaligned row.
template <class S, NumberFormat format_> struct ConstantRow {
  static constexpr NumberFormat format = format_;
  static constexpr int vector = S::width * size_of<format>,
                       piece = vector < async_copy_bytes ? vector : async_copy_bytes;
  static constexpr int elements_per_copy = piece / size_of<format>;
  u32 begin;

  RIDGE_FN u32 address_of(int k, int lane) const { return begin + (k * (S::threads + 1) + 1 + lane) * vector; }
  RIDGE_FN Pack<format, S::width> load_pack(int k, int shift) const {
    using P = Pack<format, S::width>;
    constexpr int words = P::words + (size_of<format> < 4 ? 1 : 0);
    const u32 at = address_of(k, threadIdx.x) - shift * size_of<format>;
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

}  // namespace ridge::tile::cuda
