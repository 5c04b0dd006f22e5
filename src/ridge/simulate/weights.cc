#include "ridge/simulate/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge {
namespace {

constexpr std::int64_t max_tiles = 100'000'000;
constexpr std::int64_t max_timeline_tiles = 1 << 14;

Status check_weights(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  if (const Status status = check_systolic(array, product); !status) return status.error();
  if (array.dataflow != Dataflow::weight_stationary)
    return input_error(fmt::format("expected the dataflow ws, found {}", name(array.dataflow)),
                       "only stationary weights are loaded ahead");
  for (const auto& [what, value] : {std::pair{"bandwidth", memory.bytes_per_second},
                                    {"clock", memory.clock_hz},
                                    {"weight size", memory.weight_bytes}})
    if (!(value > 0) || !std::isfinite(value))
      return input_error(fmt::format("expected a {} above 0, found {}", what, value));
  if (memory.fifo_tiles < 1 || memory.fifo_tiles > 65536)
    return input_error(fmt::format("expected a FIFO of 1 to 65536 tiles, found {}", memory.fifo_tiles));
  if (memory.cycles_per_row < 1 || memory.cycles_per_row > 1024)
    return input_error(fmt::format("expected 1 to 1024 cycles a row, found {}", memory.cycles_per_row));
  return Done{};
}

// All but the times on the clock.
WeightReport described(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  WeightReport report;
  const double elements = static_cast<double>(array.rows) * static_cast<double>(array.cols);
  report.tiles = map_product(array, product).folds();
  report.fetch = elements * memory.weight_bytes * memory.clock_hz / memory.bytes_per_second;
  report.shift = static_cast<double>(array.rows);
  report.stream = static_cast<double>(product.m) * static_cast<double>(memory.cycles_per_row);
  const double slowest = std::max({report.stream, report.shift, report.fetch});
  report.limiter = "shift";
  if (slowest == report.fetch) report.limiter = "weights";
  if (slowest == report.stream) report.limiter = "compute";
  report.steady_fraction = report.stream / slowest;
  return report;
}

// Fills in what follows from the cycle at which the last tile starts.
void finish(WeightReport& report, const SystolicArray& array, double last_start) {
  const double streamed = static_cast<double>(report.tiles) * report.stream;
  report.cycles = last_start + report.stream + static_cast<double>(array.rows + array.cols - 2);
  report.active_fraction = streamed / report.cycles;
  report.stall_cycles = last_start + report.stream - streamed;
}

}  // namespace

Result<WeightReport> weight_path(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  if (const Status status = check_weights(array, product, memory); !status) return status.error();
  if (memory.fifo_tiles < 2)
    return input_error("the closed form holds for a FIFO of at least 2 tiles, found 1", "clock_weights takes any");
  WeightReport report = described(array, product, memory);
  finish(report, array,
         report.fetch + report.shift +
             static_cast<double>(report.tiles - 1) * std::max({report.stream, report.shift, report.fetch}));
  return report;
}

Result<WeightClock> clock_weights(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  if (const Status status = check_weights(array, product, memory); !status) return status.error();
  WeightClock clock{described(array, product, memory), {}};
  const WeightReport& r = clock.report;
  if (r.tiles > max_tiles)
    return input_error(fmt::format("expected at most {} tiles to clock, found {}", max_tiles, r.tiles),
                       "the closed form counts them without walking");
  clock.timeline.ticks_per_second = memory.clock_hz;
  const std::int32_t fetches = clock.timeline.add_lane("fetch"), shifts = clock.timeline.add_lane("shift"),
                     streams = clock.timeline.add_lane("array");
  const auto add = [&](std::int32_t lane, Phase phase, double begin, double end, std::int64_t tile) {
    if (tile < max_timeline_tiles) clock.timeline.add(lane, phase, std::llround(begin), std::llround(end), tile);
  };
  std::vector<double> slot_free(static_cast<std::size_t>(std::min(memory.fifo_tiles, r.tiles)));
  double fetched = 0, start = 0, streamed = 0;  // of the tile before
  for (std::int64_t tile = 0; tile < r.tiles; ++tile) {
    double& slot = slot_free[static_cast<std::size_t>(tile % static_cast<std::int64_t>(slot_free.size()))];
    const double fetch_from = std::max(fetched, slot);
    fetched = fetch_from + r.fetch;
    const double shift_from = std::max(fetched, start);  // the swap before frees the shadow registers
    slot = shift_from + r.shift;
    start = std::max(slot, streamed);
    add(fetches, Phase::load, fetch_from, fetched, tile);
    add(shifts, Phase::load, shift_from, slot, tile);
    add(streams, Phase::stall, streamed, start, tile);
    streamed = start + r.stream;
    add(streams, Phase::compute, start, streamed, tile);
  }
  finish(clock.report, array, start);
  if (r.tiles <= max_timeline_tiles) add(streams, Phase::drain, streamed, clock.report.cycles, 0);
  return clock;
}

std::string WeightReport::text() const {
  return fmt::format(
      "  tiles        {}: fetch {:.1f}, shift {:.0f}, stream {:.0f} cycles each, bound by {}\n"
      "  cycles       {:.0f}, rows stream in {:.2f} % of them ({:.2f} % in the long run)\n",
      tiles, fetch, shift, stream, limiter, cycles, 100 * active_fraction, 100 * steady_fraction);
}

std::vector<TpuV1Row> tpu_v1_applications() {
  constexpr std::string_view cnn0 =
      "2888 rows meet every weight tile, so weights never stall and the model says 100 %; the 21.8 % outside the "
      "matrix "
      "unit are published as a total only";
  constexpr std::string_view cnn1 =
      "1750 rows a tile on average hide 28.1 % of weight stalls in layers that have fewer; their shapes are not "
      "published";
  constexpr std::string_view half = "fits only at half rate (8 by 16 bits), which is inferred";
  std::vector<TpuV1Row> rows{{"MLP0", 200, 1, 0.127, {}, ""},   {"MLP1", 168, 1, 0.106, {}, ""},
                             {"LSTM0", 64, 2, 0.082, {}, half}, {"LSTM1", 96, 2, 0.105, {}, half},
                             {"CNN0", 8, 1, 0.782, {}, cnn0},   {"CNN1", 32, 1, 0.462, {}, cnn1}};
  const SystolicArray array{256, 256, Dataflow::weight_stationary};
  for (TpuV1Row& row : rows) {
    if (row.name.starts_with("CNN")) continue;
    const ProductSize one_tile{row.batch, 256, 256};
    row.modelled = described(array, one_tile, {.cycles_per_row = row.cycles_per_row}).steady_fraction;
  }
  return rows;
}

std::string text(std::span<const TpuV1Row> rows) {
  std::string out = "TPU v1, share of cycles in which rows stream: modelled against the paper's table 3\n";
  for (const TpuV1Row& row : rows)
    out += fmt::format("  {:<6} batch {:>3}  {:>6}  {:4.1f} %{}{}\n", row.name, row.batch,
                       row.modelled ? fmt::format("{:.1f} %", 100 * *row.modelled) : "–", 100 * row.measured_active,
                       row.why.empty() ? "" : "  ", row.why);
  return out;
}

}  // namespace ridge
