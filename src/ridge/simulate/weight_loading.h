// A weight-stationary array that loads its next tile during computation. Memory fills a small FIFO of weight tiles, a
// tile is shifted into shadow registers (R cycles), and the array switches to it after its stream of T rows. TPU v1
// (Jouppi et al., ISCA 2017): a tile of 256×256 bytes takes 1349 cycles at 34 GB/s and 700 MHz, so with a batch of T =
// 200 rows the array is busy 200/1349 = 14.8 % of the time and waits for weights otherwise.
//
//   cycles = F + R + (tiles − 1)·max(T, R, F) + T + R + C − 2      F: cycles to fetch a tile; FIFO of two tiles or more
//
// Fetch and shift of the first tile are exposed; each further tile takes the slowest of the three. The model is an
// upper bound on the paper's utilization counters: it ignores dependencies between layers and work outside the array.
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
  double weight_bytes = 1;  // B for each weight; a tile always has R·C weights
  std::int64_t fifo_tiles = 4;
  std::int64_t cycles_per_row = 1;  // 2 at half rate, as on TPU v1 for 8 by 16 bits
};

// Times in cycles, not rounded, because a fetch can take a fractional number.
struct WeightReport {
  std::int64_t tiles = 0;
  double fetch_cycles = 0;   // F
  double shift_cycles = 0;   // R
  double stream_cycles = 0;  // T, times cycles_per_row
  double cycles = 0;
  double active_fraction = 0;  // fraction of all cycles in which rows stream
  double steady_fraction = 0;  // the same in the steady state: T/max(T, R, F)
  double stall_cycles = 0;     // waits of the array for tiles, including the first
  std::string_view limiter;    // the slowest of the three: "compute", "shift" or "weights"
  std::string to_text() const;
};

// Closed form. Errors, also of the simulation: those of `check_systolic`; a dataflow other than weight-stationary;
// rates that are not positive; a FIFO below 1 tile (closed form: below 2); over 10^8 tiles to simulate.
Result<WeightReport> estimate_weight_loading(const SystolicArray& array, const ProductSize& product,
                                             const WeightMemory& memory);

struct WeightSimulation {
  WeightReport report;
  Timeline timeline;  // lanes fetch, shift, array; rounded times; the first 2^14 tiles
};
Result<WeightSimulation> simulate_weight_loading(const SystolicArray& array, const ProductSize& product,
                                                 const WeightMemory& memory);

// The paper's six applications (table 3) compared with the model; `modelled` is nullopt if published data are missing.
struct TpuV1Row {
  std::string_view name;
  std::int64_t batch;
  std::int64_t cycles_per_row;
  double measured_active;  // fraction of cycles; row 1 of the table
  std::optional<double> modelled;
  std::string_view remark;
};
std::vector<TpuV1Row> tpu_v1_applications();

}  // namespace ridge
