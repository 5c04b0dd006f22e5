// A weight-stationary array that loads its next tile while it works: memory fills a small FIFO of weight tiles, a tile
// is shifted into shadow registers (R cycles), and the array swaps to it when its stream of T rows has ended. TPU v1
// (Jouppi et al., ISCA 2017): 256×256 bytes a tile from 34 GB/s at 700 MHz is 1349 cycles, so a batch of T = 200 rows
// keeps the array busy 200/1349 = 14.8 % of the time and the rest waits for weights.
//
//   cycles = F + R + (tiles − 1)·max(T, R, F) + T + R + C − 2      F: cycles to fetch a tile; FIFO of two tiles or more
//
// The first tile's fetch and shift are not hidden; everything after it takes the slowest of the three. Against the
// paper's counters the model is the upper edge: it knows no dependencies between layers and no work outside the array.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

struct WeightMemory {
  double bytes_per_second = 34e9;
  double clock_hz = 700e6;
  double weight_bytes = 1;  // a weight; every tile is fetched whole, R·C of them
  std::int64_t fifo_tiles = 4;
  std::int64_t cycles_per_row = 1;  // 2: half rate, as TPU v1 multiplies 8 by 16 bits
};

// Times in cycles, not rounded: a fetch need not take a whole number of them.
struct WeightReport {
  std::int64_t tiles = 0;
  double fetch = 0;   // F
  double shift = 0;   // R
  double stream = 0;  // T, times cycles_per_row
  double cycles = 0;
  double active_fraction = 0;  // of all cycles, those in which rows stream
  double steady_fraction = 0;  // of a tile's turn in the long run: T/max(T, R, F)
  double stall_cycles = 0;     // that the array waits for a tile, the first included
  std::string_view limiter;    // "compute", "shift" or "weights": the slowest of the three
  std::string text() const;
};

// Errors of both: those of check_systolic; a dataflow other than weight-stationary; rates that are not positive; a FIFO
// below 1 (closed form: below 2); over 10^8 tiles to clock.
Result<WeightReport> weight_path(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory);

struct WeightClock {
  WeightReport report;
  Timeline timeline;  // lanes fetch, shift, array; ends rounded; the first 2^14 tiles
};
Result<WeightClock> clock_weights(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory);

// The paper's six applications (table 3) beside the model; `modelled` is empty where published data do not suffice.
struct TpuV1Row {
  std::string_view name;
  std::int64_t batch;
  std::int64_t cycles_per_row;
  double measured_active;  // fraction of cycles, the paper's row 1
  std::optional<double> modelled;
  std::string_view why;
};
std::vector<TpuV1Row> tpu_v1_applications();
std::string text(std::span<const TpuV1Row> rows);

}  // namespace ridge
