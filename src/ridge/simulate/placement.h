// Stages on a chip of pattern compute units (PCUs) and pattern memory units (PMUs): which stage gets how many units,
// what the buffers need, and which stage then sets the pace. Three stages of 1, 8 and 3 GFLOP on 12 units of equal
// speed: four units each and the second takes 8/4 = 2; balanced, 1, 8 and 3 units take 1, twice the rate.
//
// A unit goes to the slowest stage until it cannot take more, until units run out, or until memory is slower than every
// stage: then more units would only wait. A stage that holds only so many units can be split into pieces in a row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/metapipe.h"
#include "ridge/simulate/metapipe_clock.h"

namespace ridge {

// A reconfigurable dataflow chip. Zero: not published.
struct Fabric {
  std::string_view name;
  std::int64_t pcus = 0, pmus = 0;
  std::int64_t pmu_bytes = 0;
  double pcu_flops_per_second = 0;
  std::string_view dtype;  // of that rate
  double clock_hz = 0;
  double memory_bytes_per_second = 0;
  double scratch_bytes_per_second = 0;  // of all PMUs
  std::string_view sources;             // of each figure, and what contradicts it
};

// Plasticine (ISCA 2017), SN10 and SN40L.
std::span<const Fabric> fabrics();
Result<Fabric> fabric_named(std::string_view name);  // Error: lists the names

// One iteration of a stage.
struct StageWork {
  std::string name;
  Phase phase = Phase::compute;
  double flops = 0;             // 0: needs no PCU (address generators load and store)
  double memory_bytes = 0;      // off chip
  std::int64_t tile_bytes = 0;  // of what it hands to the next stage
  std::int64_t max_pcus = 0;    // of one piece; 0: as many as there are
  std::int64_t max_pieces = 1;  // it may be split into
  std::int64_t pcus = 0;        // exactly so many (row_par); 0: as many as balance the pipe
  std::int64_t tiles = 0;       // of the buffer that it writes; 0: two
};

struct PlacedStage {
  std::string name;
  std::int64_t pcus = 0;
  std::int64_t pieces = 1;
  double seconds = 0;       // an iteration
  double even_seconds = 0;  // had every stage got the same share of the units, unsplit
};

struct Placement {
  std::string fabric;
  std::vector<PlacedStage> stages;
  std::int64_t pcus = 0, pmus = 0;  // used
  std::int64_t buffer_bytes = 0;    // N-buffered
  bool fits = true;
  std::string why_not;          // empty where it fits
  std::string bottleneck;       // a stage's name, "memory" or "scratchpads"
  double interval_seconds = 0;  // from iteration to iteration
  double even_interval_seconds = 0;
  double memory_seconds = 0, scratch_seconds = 0;  // an iteration's bytes over the rates
  double gain() const { return even_interval_seconds / interval_seconds; }
  Metapipe pipe;  // in nanoseconds, rounded up; stages that move bytes ask the memory queue for them
  PipeResources resources;
  std::string text() const;
};

struct PlacementOptions {
  std::int64_t iterations = 1;
  double compute_efficiency = 1;       // of pcu_flops_per_second that stages reach
  std::vector<PipeBuffer> skips = {};  // buffers beside those between neighbours, by index into the stages
};

// Puts another pipe in the place of placement.pipe, of the same stages in other loops, and counts its buffers.
Status set_pipe(Placement& placement, const Fabric& fabric, Metapipe pipe);

// Errors: no stage; numbers that are negative or not finite; a fabric without the rate or the bandwidth it takes.
Result<Placement> place(const Fabric& fabric, std::span<const StageWork> stages, const PlacementOptions& options = {});

}  // namespace ridge
