#include "ridge/simulate/folds.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {
namespace {

constexpr std::int64_t max_folds = 1'000'000'000;

struct Tile {
  std::int64_t rows, cols;  // elements of the array that this fold uses
};

void count_words(SramWords& words, const SystolicArray& array, const SystolicMapping& map, Tile tile) {
  if (map.output_stays) {
    words.a += tile.rows * map.t;
    words.b += tile.cols * map.t;
    words.c += tile.rows * tile.cols + array.rows + array.cols;
    words.c_overcount += array.rows + array.cols;
    return;
  }
  (map.transposed ? words.b : words.a) += tile.rows * map.t;
  (map.transposed ? words.a : words.b) += tile.rows * tile.cols;
  words.c += tile.cols * map.t;
}

void add_fold(Timeline& timeline, const FoldPhases& phases, std::int64_t now, std::int64_t fold) {
  for (const auto& [phase, cycles] : {std::pair{Phase::load, phases.load},
                                      {Phase::fill, phases.fill},
                                      {Phase::compute, phases.compute},
                                      {Phase::drain, phases.drain}}) {
    timeline.add(0, phase, now, now + cycles, fold);
    now += cycles;
  }
}

}  // namespace

FoldPhases phases_of(const SystolicArray& array, const SystolicMapping& map) {
  const std::int64_t skew = array.rows + array.cols - 2, fill = std::min(map.t, skew);
  return {map.load, fill, std::max(map.t, skew) - fill, fill};
}

Timeline first_folds(const SystolicArray& array, const ProductSize& product, std::int64_t count) {
  const SystolicMapping map = map_product(array, product);
  Timeline timeline;
  timeline.add_lane("array");
  for (std::int64_t fold = 0; fold < std::min(count, map.folds()); ++fold)
    add_fold(timeline, phases_of(array, map), fold * map.fold(), fold);
  return timeline;
}

Result<FoldClock> clock_folds(const SystolicArray& array, const ProductSize& product) {
  if (const Status status = check_systolic(array, product); !status) return status.error();
  const SystolicMapping map = map_product(array, product);
  if (map.folds() > max_folds)
    return input_error(fmt::format("expected at most {} folds to clock, found {}", max_folds, map.folds()),
                       "the closed form counts them without walking");
  FoldClock clock;
  clock.timeline = first_folds(array, product, FoldClock::max_events / 4);
  const FoldPhases phases = phases_of(array, map);
  std::int64_t now = 0;
  for (std::int64_t col = 0; col < map.sc; col += array.cols) {
    for (std::int64_t row = 0; row < map.sr; row += array.rows) {
      const Tile tile{std::min(array.rows, map.sr - row), std::min(array.cols, map.sc - col)};
      clock.load_cycles += phases.load;
      clock.fill_cycles += phases.fill;
      clock.compute_cycles += phases.compute;
      clock.drain_cycles += phases.drain;
      clock.multiply_adds += tile.rows * tile.cols * map.t;
      count_words(clock.sram_words, array, map, tile);
      ++clock.folds;
      now += phases.load + phases.fill + phases.compute + phases.drain;
    }
  }
  clock.cycles = array.preload ? now : now - 1;
  return clock;
}

}  // namespace ridge
