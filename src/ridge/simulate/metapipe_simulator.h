// Discrete-event simulation of a metapipeline. A stage starts when its inputs are available, its output buffer has a
// free tile and its units are free. The result equals the closed form where that is valid. The simulation also covers
// data-dependent latencies, too few tiles, nested loops that drain, and contention for units, memory or network.
//
// A tile is occupied from the start of its producer's iteration to the end of its consumer's. A FIFO entry (streaming)
// is occupied from the end of the producer's iteration, which waits for space, to the start of the consumer's. Memory
// and network are one first-come-first-served queue each; a transfer takes its bytes divided by the rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/metapipe.h"

namespace ridge {

// Resources that all stages share; 0 means unlimited.
struct PipeResources {
  std::int64_t pcus = 0, pmus = 0;
  double memory_bytes_per_cycle = 0, network_bytes_per_cycle = 0;
  bool operator==(const PipeResources&) const = default;
};

// Cycles summed over all iterations of a stage. A stage that is a loop is busy while the loop runs.
struct StageActivity {
  std::string name;  // with the enclosing loops except the outermost: "tiles/load"
  std::int64_t runs = 0;
  std::int64_t busy = 0;       // computing or transferring
  std::int64_t starved = 0;    // waiting for inputs, or for other stages of a sequential loop
  std::int64_t blocked = 0;    // waiting for space in its output buffer
  std::int64_t contended = 0;  // waiting for PCUs, PMUs, memory or network
  bool operator==(const StageActivity&) const = default;
};

struct MetapipeRun {
  std::int64_t cycles = 0;
  std::vector<StageActivity> stages;  // in program order, a loop before its stages
  std::string bottleneck;             // leaf with the most busy cycles
  double bottleneck_busy = 0;         // its busy fraction of all cycles
  Timeline timeline;                  // one lane for each stage; the first max_events events
  static constexpr std::size_t max_events = 1 << 16;
  std::string to_text() const;
};

// Errors: those of `check_metapipe`; a stage that needs more PCUs or PMUs than the chip has; negative or infinite
// rates; more than 2^24 iterations of stages in total.
Result<MetapipeRun> simulate_metapipe(const Metapipe& pipe, const PipeResources& resources = {});

}  // namespace ridge
