#include "ridge/simulate/weight_loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge {
namespace {

constexpr std::int64_t max_simulated_tiles = 100'000'000;
constexpr std::int64_t max_timeline_tiles = 1 << 14;

Status check_weights(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  RIDGE_TRY_STATUS(check_systolic(array, product));
  if (array.dataflow != Dataflow::weight_stationary)
    return input_error(fmt::format("expected the dataflow ws, found {}", dataflow_name(array.dataflow)),
                       "only stationary weights can be loaded in advance");
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

// Returns a report without the fields that `set_cycles` sets.
WeightReport describe_tiles(const SystolicArray& array, const ProductSize& product, const WeightMemory& memory) {
  WeightReport report;
  const double elements = static_cast<double>(array.rows) * static_cast<double>(array.cols);
  report.tiles = make_mapping(array, product).fold_count();
  report.fetch_cycles = elements * memory.weight_bytes * memory.clock_hz / memory.bytes_per_second;
  report.shift_cycles = static_cast<double>(array.rows);
  report.stream_cycles = static_cast<double>(product.m) * static_cast<double>(memory.cycles_per_row);
  const double slowest = std::max({report.stream_cycles, report.shift_cycles, report.fetch_cycles});
  report.limiter = "shift";
  if (slowest == report.fetch_cycles) report.limiter = "weights";
  if (slowest == report.stream_cycles) report.limiter = "compute";
  report.steady_fraction = report.stream_cycles / slowest;
  return report;
}

// Sets the totals, given the cycle at which the last tile starts.
void set_cycles(WeightReport& report, const SystolicArray& array, double last_start) {
  const double streamed = static_cast<double>(report.tiles) * report.stream_cycles;
  report.cycles = last_start + report.stream_cycles + static_cast<double>(array.rows + array.cols - 2);
  report.active_fraction = streamed / report.cycles;
  report.stall_cycles = last_start + report.stream_cycles - streamed;
}

}  // namespace

Result<WeightReport> estimate_weight_loading(const SystolicArray& array, const ProductSize& product,
                                             const WeightMemory& memory) {
  RIDGE_TRY_STATUS(check_weights(array, product, memory));
  if (memory.fifo_tiles < 2)
    return input_error("the closed form needs a FIFO of at least 2 tiles, found 1", "the simulation takes any FIFO");
  WeightReport report = describe_tiles(array, product, memory);
  set_cycles(report, array,
             report.fetch_cycles + report.shift_cycles +
                 static_cast<double>(report.tiles - 1) *
                     std::max({report.stream_cycles, report.shift_cycles, report.fetch_cycles}));
  return report;
}

Result<WeightSimulation> simulate_weight_loading(const SystolicArray& array, const ProductSize& product,
                                                 const WeightMemory& memory) {
  RIDGE_TRY_STATUS(check_weights(array, product, memory));
  WeightSimulation simulation{describe_tiles(array, product, memory), {}};
  const WeightReport& r = simulation.report;
  if (r.tiles > max_simulated_tiles)
    return input_error(fmt::format("expected at most {} tiles to simulate, found {}", max_simulated_tiles, r.tiles),
                       "the closed form has no limit on tiles");
  simulation.timeline.ticks_per_second = memory.clock_hz;
  const std::int32_t fetch_lane = simulation.timeline.add_lane("fetch"),
                     shift_lane = simulation.timeline.add_lane("shift"),
                     array_lane = simulation.timeline.add_lane("array");
  const auto add = [&](std::int32_t lane, Phase phase, double begin, double end, std::int64_t tile) {
    if (tile < max_timeline_tiles)
      simulation.timeline.add_event(lane, phase, std::llround(begin), std::llround(end), tile);
  };
  std::vector<double> slot_free(std::min(memory.fifo_tiles, r.tiles));
  double fetched = 0, start = 0, streamed = 0;  // ends and start of the previous tile
  for (std::int64_t tile = 0; tile < r.tiles; ++tile) {
    double& slot_free_at = slot_free[tile % static_cast<std::int64_t>(slot_free.size())];
    const double fetch_begin = std::max(fetched, slot_free_at);
    fetched = fetch_begin + r.fetch_cycles;
    const double shift_begin = std::max(fetched, start);  // the previous switch frees the shadow registers
    slot_free_at = shift_begin + r.shift_cycles;
    start = std::max(slot_free_at, streamed);
    add(fetch_lane, Phase::load, fetch_begin, fetched, tile);
    add(shift_lane, Phase::load, shift_begin, slot_free_at, tile);
    add(array_lane, Phase::stall, streamed, start, tile);
    streamed = start + r.stream_cycles;
    add(array_lane, Phase::compute, start, streamed, tile);
  }
  set_cycles(simulation.report, array, start);
  if (r.tiles <= max_timeline_tiles) add(array_lane, Phase::drain, streamed, simulation.report.cycles, 0);
  return simulation;
}

std::string WeightReport::to_text() const {
  return fmt::format(
      "  tiles        {}: fetch {:.1f}, shift {:.0f}, stream {:.0f} cycles each, bound by {}\n"
      "  cycles       {:.0f}, rows stream in {:.2f} % of them ({:.2f} % in the long run)\n",
      tiles, fetch_cycles, shift_cycles, stream_cycles, limiter, cycles, 100 * active_fraction, 100 * steady_fraction);
}

std::vector<TpuV1Row> tpu_v1_applications() {
  constexpr std::string_view cnn0_remark =
      "2888 rows use every weight tile, so weights never stall and the model predicts 100 %; the 21.8 % outside the "
      "matrix "
      "unit are published as a total only";
  constexpr std::string_view cnn1_remark =
      "1750 rows a tile on average hide 28.1 % of weight stalls in layers that have fewer; their shapes are not "
      "published";
  constexpr std::string_view half_rate_remark = "fits only at half rate (8 by 16 bits), which is inferred";
  std::vector<TpuV1Row> rows{{"MLP0", 200, 1, 0.127, {}, ""},
                             {"MLP1", 168, 1, 0.106, {}, ""},
                             {"LSTM0", 64, 2, 0.082, {}, half_rate_remark},
                             {"LSTM1", 96, 2, 0.105, {}, half_rate_remark},
                             {"CNN0", 8, 1, 0.782, {}, cnn0_remark},
                             {"CNN1", 32, 1, 0.462, {}, cnn1_remark}};
  const SystolicArray array{256, 256, Dataflow::weight_stationary};
  for (TpuV1Row& row : rows) {
    if (row.name.starts_with("CNN")) continue;
    const ProductSize one_tile{row.batch, 256, 256};
    row.modelled = describe_tiles(array, one_tile, {.cycles_per_row = row.cycles_per_row}).steady_fraction;
  }
  return rows;
}

}  // namespace ridge
