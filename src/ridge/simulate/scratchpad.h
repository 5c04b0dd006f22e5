// What the array waits for: three SRAMs between it and memory, each half working and half filling (or draining). While
// the array reads from a window of the prefetched stream, the next half arrives at `bandwidth` words a cycle; a word
// that is not in the window stops the clock until the window has moved on. 32×32, M 256 N 128 K 256, 64 KiB each, 10
// words a cycle: os stalls 42272 cycles beside 10175 of work, is only 5777 beside 14207.
//
// This is SCALE-Sim's USER mode (v3, commit 1d62b68), to the cycle, with what is odd about it: a read's wait is charged
// twice (`waits_twice`), a prefetched half costs one cycle more than its lines, and results of an os fold are written
// before they are complete (elements.h). With waits_twice off each wait counts once, which is what the hardware would
// do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/base/result.h"
#include "ridge/simulate/convolution.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

struct Scratchpad {
  std::int64_t words = 65536;   // SCALE-Sim's word is a byte
  std::int64_t bandwidth = 10;  // words a cycle to or from memory
  bool operator==(const Scratchpad&) const = default;
};

struct Scratchpads {
  Scratchpad a, b, c;
  bool waits_twice = true;
  bool operator==(const Scratchpads&) const = default;
};

struct StallReport {
  std::int64_t cycles = 0;  // with stalls; the last cycle's number
  std::int64_t stall_cycles = 0;
  std::int64_t cycles_with_prefetch = 0;  // from the first word fetched to the last one written back
  std::int64_t memory_reads_a = 0, memory_reads_b = 0, memory_writes_c = 0;  // words
  std::string text() const;
  bool operator==(const StallReport&) const = default;
};

// Walks every cycle and every word. `convolution`, where given, must be what `product` was made from: its windows
// overlap, so a pixel fetched once serves several rows of A. Errors: those of check_systolic; preload; a scratchpad
// below 2 words or a bandwidth below 1; more than 2^34 words or 2^28 different ones to walk.
Result<StallReport> simulate_stalls(const SystolicArray& array, const ProductSize& product, const Scratchpads& pads,
                                    const std::optional<Convolution>& convolution = std::nullopt);

}  // namespace ridge
