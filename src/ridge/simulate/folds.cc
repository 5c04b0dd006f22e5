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

}  // namespace

Result<FoldClock> clock_folds(const SystolicArray& array, const ProductSize& product) {
  if (const Status status = check_systolic(array, product); !status) return status.error();
  const SystolicMapping map = map_product(array, product);
  if (map.folds() > max_folds)
    return input_error(fmt::format("expected at most {} folds to clock, found {}", max_folds, map.folds()),
                       "the closed form counts them without walking");
  FoldClock clock;
  const std::int32_t lane = clock.timeline.add_lane("array");
  const std::int64_t skew = array.rows + array.cols - 2;
  std::int64_t now = 0;
  for (std::int64_t col = 0; col < map.sc; col += array.cols) {
    for (std::int64_t row = 0; row < map.sr; row += array.rows) {
      const Tile tile{std::min(array.rows, map.sr - row), std::min(array.cols, map.sc - col)};
      const std::int64_t start = now + map.load, filled = start + std::min(map.t, skew),
                         draining = start + std::max(map.t, skew), end = start + map.stream;
      if (clock.folds < FoldClock::max_events / 4) {
        clock.timeline.add(lane, Phase::load, now, start, clock.folds);
        clock.timeline.add(lane, Phase::fill, start, filled, clock.folds);
        clock.timeline.add(lane, Phase::compute, filled, draining, clock.folds);
        clock.timeline.add(lane, Phase::drain, draining, end, clock.folds);
      }
      clock.load_cycles += start - now;
      clock.fill_cycles += filled - start;
      clock.compute_cycles += draining - filled;
      clock.drain_cycles += end - draining;
      clock.multiply_adds += tile.rows * tile.cols * map.t;
      count_words(clock.sram_words, array, map, tile);
      ++clock.folds;
      now = end;
    }
  }
  clock.cycles = array.preload ? now : now - 1;
  return clock;
}

}  // namespace ridge
