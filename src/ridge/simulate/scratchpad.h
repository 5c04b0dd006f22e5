// Memory stalls of a systolic array with three double-buffered SRAMs between it and memory. The array reads from a
// window of the prefetched stream while the next half arrives at `bandwidth` words/cycle; a word outside the window
// stalls the array until the window has advanced. 32×32, M 256 N 128 K 256, 64 KiB each, 10 words/cycle: os stalls for
// 42272 cycles in addition to 10175 of work, is for 5777 in addition to 14207.
//
// Reproduces SCALE-Sim's USER mode (v3, commit 1d62b68) to the cycle, including its peculiarities: it charges a read's
// wait twice (`charges_waits_twice`), a prefetched half costs one cycle more than its lines, and an os fold writes
// results before they are complete (systolic_elements.h). Hardware would charge each wait once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/base/result.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

struct Scratchpad {
  std::int64_t words = 65536;   // capacity; SCALE-Sim's word is a byte
  std::int64_t bandwidth = 10;  // words/cycle to or from memory
  bool operator==(const Scratchpad&) const = default;
};

struct Scratchpads {
  Scratchpad a, b, c;
  bool charges_waits_twice = true;
  bool operator==(const Scratchpads&) const = default;
};

struct StallReport {
  std::int64_t cycles = 0;  // including stalls; index of the last cycle
  std::int64_t stall_cycles = 0;
  std::int64_t cycles_with_prefetch = 0;  // from the first word fetched to the last word written back
  std::int64_t memory_reads_a = 0, memory_reads_b = 0, memory_writes_c = 0;  // words
  std::string to_text() const;
  bool operator==(const StallReport&) const = default;
};

// Simulates every cycle and every word. `convolution`, if given, must be the source of `product`: its windows overlap,
// so a pixel is fetched once for several rows of A. Errors: those of `check_systolic`; preload; a scratchpad below 2
// words or a bandwidth below 1; more than 2^34 words or 2^28 addresses.
Result<StallReport> simulate_stalls(const SystolicArray& array, const ProductSize& product, const Scratchpads& pads,
                                    const std::optional<Convolution>& convolution = std::nullopt);

}  // namespace ridge
