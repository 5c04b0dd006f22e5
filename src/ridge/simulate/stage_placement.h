// Placement of pipeline stages on a chip of pattern compute units (PCUs) and pattern memory units (PMUs): units of each
// stage, PMUs for buffers, and the bottleneck stage. Three stages of 1, 8 and 3 GFLOP on 12 units of equal speed: with
// four units each, the second takes 8/4 = 2; balanced, 1, 8 and 3 units take 1, twice the rate.
//
// Each unit goes to the slowest stage, until that stage is at its maximum, units run out, or memory is slower than
// every stage. A stage whose maximum is too small can be split into several sequential pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/metapipe.h"
#include "ridge/simulate/metapipe_simulator.h"

namespace ridge {

// A reconfigurable dataflow chip. 0 means not published.
struct Fabric {
  std::string_view name;
  std::int64_t pcus = 0, pmus = 0;
  std::int64_t pmu_bytes = 0;
  double pcu_flops_per_second = 0;
  std::string_view dtype;  // dtype of the PCU rate
  double clock_hz = 0;
  double memory_bytes_per_second = 0;
  double scratch_bytes_per_second = 0;  // total of all PMUs
  std::string_view sources;             // source of each figure, and contradicting figures
};

// Returns Plasticine (ISCA 2017), SN10 and SN40L.
std::span<const Fabric> list_fabrics();
Result<Fabric> find_fabric(std::string_view name);  // the error lists the names

// Work of one iteration of a stage.
struct StageWork {
  std::string name;
  Phase phase = Phase::compute;
  double flops = 0;             // a stage with 0 needs no PCU (address generators load and store)
  double memory_bytes = 0;      // off-chip traffic
  std::int64_t tile_bytes = 0;  // output tile for the next stage
  std::int64_t max_pcus = 0;    // limit of one piece; 0 for no limit
  std::int64_t max_pieces = 1;  // limit when the stage is split
  std::int64_t pcus = 0;        // fixed number (row_par), or 0 to balance the pipe
  std::int64_t tiles = 0;       // depth of the output buffer; 0 for two tiles
};

struct PlacedStage {
  std::string name;
  std::int64_t pcus = 0;
  std::int64_t pieces = 1;
  double seconds = 0;       // time of an iteration
  double even_seconds = 0;  // time with an equal share of the units for every stage, unsplit
};

struct Placement {
  std::string fabric;
  std::vector<PlacedStage> stages;
  std::int64_t pcus = 0, pmus = 0;  // units in use
  std::int64_t buffer_bytes = 0;    // including all copies of N-buffers
  bool fits = true;
  std::string why_not;          // reason if it does not fit
  std::string bottleneck;       // name of a stage, "memory" or "scratchpads"
  double interval_seconds = 0;  // time between iterations
  double even_interval_seconds = 0;
  double memory_seconds = 0, scratch_seconds = 0;  // bytes of an iteration divided by the rates
  double speedup_over_even() const { return even_interval_seconds / interval_seconds; }
  Metapipe pipe;  // in nanoseconds, rounded up; off-chip traffic uses the memory queue
  PipeResources resources;
  std::string to_text() const;
};

struct PlacementOptions {
  std::int64_t iterations = 1;
  double compute_efficiency = 1;              // achieved fraction of pcu_flops_per_second
  std::vector<PipeBuffer> skip_buffers = {};  // further buffers than those between adjacent stages
};

// Replaces `placement.pipe` by `pipe`, which has the same stages in other loops, and recounts the buffers.
Status replace_pipe(Placement& placement, const Fabric& fabric, Metapipe pipe);

// Errors: no stage; negative or infinite numbers; a fabric without a required rate or bandwidth.
Result<Placement> place_stages(const Fabric& fabric, std::span<const StageWork> stages,
                               const PlacementOptions& options = {});

}  // namespace ridge
