#include "ridge/simulate/systolic_run.h"

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

namespace {

std::vector<float> counting_values(std::int64_t size) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < size; ++i) out.push_back(static_cast<float>(1 + i % 9));
  return out;
}

}  // namespace

std::string SystolicRun::mapping_formula() const {
  const std::string_view output_dim = mapping.is_transposed ? "N" : "M";
  const std::string_view streamed = mapping.is_output_stationary ? "K" : output_dim;
  return fmt::format("T + {}R + C − 2 = {}, T = {} = {}", mapping.load_cycles > 0 ? "2" : "", mapping.fold_cycles(),
                     streamed, mapping.t);
}

bool SystolicRun::is_drawable() const {
  return task.array.rows <= max_drawn_elements && task.array.cols <= max_drawn_elements &&
         task.array.rows * task.array.cols <= max_drawn_elements && report.cycles < max_drawn_cycles;
}

Result<SystolicRun> run_systolic(const SystolicTask& task) {
  RIDGE_TRY(report, simulate_systolic(task.array, task.product));
  if (task.copies < 1) return input_error(fmt::format("expected at least 1 copy of a layer, found {}", task.copies));
  SystolicRun run{task, std::move(report), make_mapping(task.array, task.product), {}, std::nullopt};
  run.phases = fold_phase_cycles(task.array, run.mapping);
  if (!task.scratchpads) return run;
  RIDGE_TRY(stalls, simulate_stalls(task.array, task.product, *task.scratchpads, task.convolution));
  run.stalls = stalls;
  return run;
}

Result<ElementRun> compute_frames(const SystolicRun& run) {
  const ProductSize& p = run.task.product;
  return simulate_elements(run.task.array, p, counting_values(p.m * p.k), counting_values(p.k * p.n), {.frames = true});
}

SystolicTotal sum_runs(std::span<const SystolicRun> runs) {
  SystolicTotal total;
  for (const SystolicRun& run : runs) {
    const double copies = static_cast<double>(run.task.copies),
                 cycles = copies * static_cast<double>(run.report.cycles);
    const ProductSize& p = run.task.product;
    const SystolicArray& array = run.task.array;
    total.cycles += cycles;
    if (run.stalls) total.stall_cycles += copies * static_cast<double>(run.stalls->stall_cycles);
    total.multiply_adds += copies * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    total.element_cycles += cycles * static_cast<double>(array.rows) * static_cast<double>(array.cols);
  }
  return total;
}

}  // namespace ridge
