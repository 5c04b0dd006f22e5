// Overlap of a product with the collective that gathers its operand or sends its result, in n chunks: while one chunk
// is sent, another is computed; the first or the last transfer overlaps with nothing.
//   s(n) = S/n + a                  time to send a chunk: bytes over the links' rate, plus a message's latency
//   c(n) = max(M/n, P/n + K) + b    time to compute a chunk: math; memory, K of it for every chunk; plus a launch
//   T(n) = s(n) + c(n) + (n - 1)*max(s(n), c(n))
// T(1) has no overlap. T(n) < T(1) for some n if and only if two chunks are faster than one, because c is convex in
// 1/n:
//   c(1) - c(2) > a and S/2 + c(1) > 2*c(2)
// If math takes longer than memory, this is M > 2*a and S > 2*b: computing takes longer than two latencies and sending
// longer than two launches. (Products split in this way: Wang et al., ASPLOS 2023.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct Explanation;

struct OverlapTimes {                                   // Seconds of one device
  double math_s = 0;                                    // M
  double chunked_memory_s = 0;                          // P: memory time of the tensors that are split into chunks
  double repeated_memory_s = 0;                         // K: memory time of the other tensors
  double launch_s = 0;                                  // b; 0 if not on record
  double transfer_s = 0;                                // S
  double message_latency_s = 0;                         // a; 0 if not on record
  double chunk_transfer_seconds(std::int64_t n) const;  // s(n)
  double chunk_compute_seconds(std::int64_t n) const;   // c(n)
  double total_seconds(std::int64_t n) const;           // T(n)
  bool is_faster_in_chunks() const;
};

struct ChunkChoice {
  std::int64_t count = 1;
  double seconds = 0;
};
// Returns the fastest of 1 to `max_count` chunks, the fewest of equals.
ChunkChoice choose_chunks(const OverlapTimes& times, std::int64_t max_count);
inline constexpr std::int64_t max_chunks = 64;

// Returns the least size from which chunks are faster, or nullopt if they never are below 2^40. M, P and S must be
// proportional to the dimension, which is `size` in `times`. Exact, because the gain of two chunks grows with the size.
std::optional<std::int64_t> min_size_for_chunks(const OverlapTimes& times, std::int64_t size);

struct Overlap {
  std::string product, tensor, collective;  // Names of results; "all-gather over X"
  bool gathers_operand = false;             // If false, the collective sends the result
  std::string dim;                          // Dimension that is split into chunks: the largest possible one
  std::int64_t size = 1;                    // Size of `dim`
  OverlapTimes times = {};
  ChunkChoice best = {};
  std::optional<std::int64_t> min_size = {};  // Size of `dim` from which chunks are faster
};

// Returns each collective of a sharded program that can overlap with a product: its own, or that of a statement that
// only moves its operand or result. Collectives with unknown times are left out.
std::vector<Overlap> find_overlaps(const Program& program, const Explanation& explanation);

// "y after all-gather over X of g: 349.9 us in sequence, 240.1 us in 12 chunks along F; chunks are faster from F = 310"
std::string describe_overlap(const Overlap& overlap);

}  // namespace ridge
