#include "ridge/simulate/systolic_folds.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {
namespace {

constexpr std::int64_t max_folds = 1'000'000'000;

struct FoldTile {
  std::int64_t rows, cols;  // elements in use
};

void add_words(SramWords& words, const SystolicArray& array, const SystolicMapping& map, FoldTile tile) {
  if (map.is_output_stationary) {
    words.a += tile.rows * map.t;
    words.b += tile.cols * map.t;
    words.c += tile.rows * tile.cols + array.rows + array.cols;
    words.c_overcount += array.rows + array.cols;
    return;
  }
  (map.is_transposed ? words.b : words.a) += tile.rows * map.t;
  (map.is_transposed ? words.a : words.b) += tile.rows * tile.cols;
  words.c += tile.cols * map.t;
}

void add_fold(Timeline& timeline, const FoldPhaseCycles& phases, std::int64_t cycle, std::int64_t fold) {
  for (const auto& [phase, cycles] : {std::pair{Phase::load, phases.load},
                                      {Phase::fill, phases.fill},
                                      {Phase::compute, phases.compute},
                                      {Phase::drain, phases.drain}}) {
    timeline.add_event(0, phase, cycle, cycle + cycles, fold);
    cycle += cycles;
  }
}

}  // namespace

FoldPhaseCycles fold_phase_cycles(const SystolicArray& array, const SystolicMapping& map) {
  const std::int64_t skew_cycles = array.rows + array.cols - 2, fill = std::min(map.t, skew_cycles);
  return {map.load_cycles, fill, std::max(map.t, skew_cycles) - fill, fill};
}

Timeline first_folds_timeline(const SystolicArray& array, const ProductSize& product, std::int64_t count) {
  const SystolicMapping map = make_mapping(array, product);
  Timeline timeline;
  timeline.add_lane("array");
  for (std::int64_t fold = 0; fold < std::min(count, map.fold_count()); ++fold)
    add_fold(timeline, fold_phase_cycles(array, map), fold * map.fold_cycles(), fold);
  return timeline;
}

Result<FoldSimulation> simulate_folds(const SystolicArray& array, const ProductSize& product) {
  RIDGE_TRY_STATUS(check_systolic(array, product));
  const SystolicMapping map = make_mapping(array, product);
  if (map.fold_count() > max_folds)
    return input_error(fmt::format("expected at most {} folds to clock, found {}", max_folds, map.fold_count()),
                       "the closed form has no limit on folds");
  FoldSimulation simulation;
  simulation.timeline = first_folds_timeline(array, product, FoldSimulation::max_events / 4);
  const FoldPhaseCycles phases = fold_phase_cycles(array, map);
  std::int64_t cycle = 0;
  for (std::int64_t col = 0; col < map.sc; col += array.cols) {
    for (std::int64_t row = 0; row < map.sr; row += array.rows) {
      const FoldTile tile{std::min(array.rows, map.sr - row), std::min(array.cols, map.sc - col)};
      simulation.load_cycles += phases.load;
      simulation.fill_cycles += phases.fill;
      simulation.compute_cycles += phases.compute;
      simulation.drain_cycles += phases.drain;
      simulation.multiply_adds += tile.rows * tile.cols * map.t;
      add_words(simulation.sram_words, array, map, tile);
      ++simulation.folds;
      cycle += phases.load + phases.fill + phases.compute + phases.drain;
    }
  }
  simulation.cycles = array.preload ? cycle : cycle - 1;
  return simulation;
}

}  // namespace ridge
