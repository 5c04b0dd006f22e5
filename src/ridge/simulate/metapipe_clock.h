// A metapipeline on an event clock: a stage starts when its inputs are there, its output buffer has a free tile and its
// share of the chip is free, and the clock jumps from end to end. It gives the closed forms where those hold and goes
// on where they do not: stages that take another time each iteration, too few tiles, loops in loops that drain, and
// stages that want the same compute units, memory units, memory or network.
//
// A buffer's tile is taken when its producer starts an iteration and freed when its consumer has finished it; a FIFO
// (streaming) takes an entry when the producer is done, which waits while there is no room, and frees it when the
// consumer starts. Memory and network are each one queue, served in order of arrival: bytes over the rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/metapipe.h"

namespace ridge {

// What all stages share; 0: without limit.
struct PipeResources {
  std::int64_t pcus = 0, pmus = 0;
  double memory_bytes_per_cycle = 0, network_bytes_per_cycle = 0;
  bool operator==(const PipeResources&) const = default;
};

// Cycles summed over all runs of a stage. A stage that is a loop is busy while the loop runs.
struct StageActivity {
  std::string name;  // with the loops around it, the outermost left out: "tiles/load"
  std::int64_t runs = 0;
  std::int64_t busy = 0;       // at work, or with its bytes under way
  std::int64_t starved = 0;    // inputs not there, or not its turn
  std::int64_t blocked = 0;    // no room for its output
  std::int64_t contended = 0;  // PCUs, PMUs, memory or network busy with others
  bool operator==(const StageActivity&) const = default;
};

struct MetapipeRun {
  std::int64_t cycles = 0;
  std::vector<StageActivity> stages;  // in the order of the text, a loop before what is in it
  std::string bottleneck;             // the leaf that is busy longest
  double bottleneck_busy = 0;         // its share of all cycles
  Timeline timeline;                  // a lane per stage; the first max_events events
  static constexpr std::size_t max_events = 1 << 16;
  std::string text() const;
};

// Errors: those of check_metapipe; a stage that wants more PCUs or PMUs than there are; rates that are negative or not
// finite; more than 2^24 runs of stages.
Result<MetapipeRun> simulate_metapipe(const Metapipe& pipe, const PipeResources& resources = {});

}  // namespace ridge
