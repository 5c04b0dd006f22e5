// The time of a plan, counted in cycles and bytes. A 128 x 128 tile of bf16 takes 512 cycles for 64 of k on the tensor
// cores (2048 multiply-adds a cycle) and as long on the way from the L2; what decides for busy products is how many
// waves of tiles there are times how wide they are, for the others the bytes, what a launch costs and how pieces of k
// meet.
//
// The form is physics, the constants are fitted: 26,953 timings of 448 products under every plan that is not hopeless,
// on one H200, 2026-11-21, clocks as they come; mean error over all of them 8.6 %. Products that the multiplies bound
// keep an older form (busy_seconds), fitted on them alone: it picks better plans for them.
#include "ridge/kernels/matmul_model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::kernels::cuda {
namespace {

using tile::Cuts, tile::Roles;

constexpr double cycles_per_us = 1750;
constexpr double busy_slowdown = 0.11;                         // the power limit lowers the clock of long, busy kernels
constexpr double memory = 5.05e6, memory_per_block = 0.221e6;  // bytes a us
constexpr double l2_again = 37.9e6;                            // bytes a us that the L2 serves again
constexpr double l2_straight = 75.6, l2_swapped = 111;         // bytes a cycle into one block
constexpr double reads_a = 24.5, least_stage = 257;            // cycles: of an instruction of 64 x n x 16; of 128 of k
constexpr double narrow_line = 25;  // cycles: the copy engine takes as long for lines of a few bytes
constexpr double both_wait = 1.07;  // two consumers of a tile wait for each other
constexpr double first_load = 1400, tile_end = 764, tile_end_alone = 898, box = 111;  // cycles
constexpr double element_box = 46;                                                    // boxes: written by elements
constexpr double piece = 1689, piece_sums = 2418, piece_batch = 451;                  // cycles
constexpr double share = 1800, share_step = 1300, next_cluster = 2800;                // cycles
constexpr double stream_us = 1.22, copy_us = 2.87;
constexpr double copied = 2.86e6;  // bytes a us
constexpr double overlap = 1.39;   // two things at once: 1 would be one after the other, 8 the longer

double up(double x, double by) { return std::ceil(x / by); }
// What two things take that overlap; the higher the power, the better they do.
double both(double x, double y, double power) { return std::pow(std::pow(x, power) + std::pow(y, power), 1 / power); }

// Clusters that run at once: their blocks lie in one of the chip's groups of 16 or 18 multiprocessors.
double clusters(int blocks) {
  constexpr std::array at_once{132, 66, 39, 30, 22, 17, 15, 15};
  return at_once[static_cast<std::size_t>(blocks - 1)];
}

struct Cycles {  // of one block
  double multiply, load, stage, end;
};

Cycles cycles(const MatmulConfig& c, const TileWork& w) {
  const double rate = c.swap ? l2_swapped : l2_straight;
  const double multiply = c.m / 64.0 * (c.k / 16.0) * std::max(c.n / 2.0, reads_a + c.n / 4.0);
  const double load = (c.m * (w.straddles_a ? 2 : 1) + c.n * (w.straddles_b ? 2 : 1)) * c.k * 2.0 / rate +
                      (w.narrow_a + w.narrow_b) * c.k * narrow_line;
  const double wait = c.roles == Roles::cooperative && c.consumers == 2 ? both_wait : 1;
  const double boxes = up(c.n, 64) * c.m / c.sharers() / 64 * (w.element_stores ? element_box : 1);
  return {multiply, load, std::max(wait * both(multiply, load, 10), least_stage * c.k / 128), tile_end + boxes * box};
}

// What it takes to add the pieces of a tile.
double meeting(const MatmulConfig& c, const Split& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.sharers(), pieces = split.pieces;  // of a thread
  if (split.cuts == Cuts::shared) return share + share_step * std::ceil(sums / 4 / pieces);
  const double at_once = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = up(split.cuts == Cuts::streamed ? 2 : pieces, at_once);
  return piece + piece_sums * sums / 64 + piece_batch * batches * std::max(1.0, std::pow(sums / 64, 0.7));
}

double busy_seconds(const MatmulConfig& c, const TileWork& w, const Split& split, int sms) {
  constexpr double least_hz = 1.3e9, most_hz = 1.75e9, memory_per_s = 4.2e12, l2_per_cycle = 70;
  const double tiles =
      static_cast<double>(w.batch) * up(static_cast<double>(w.m), c.m) * up(static_cast<double>(w.n), c.n);
  const double stages = up(static_cast<double>(w.k), c.k), pieces = split.pieces;
  const double multiply = 1.02 * c.m / 64.0 * (c.k / 16.0) * std::max(c.n / 2.0, 16 + c.n / 4.0);
  const double load = (c.m * (w.straddles_a ? 2 : 1) + c.n * (w.straddles_b ? 2 : 1)) * c.k * 2.0 / l2_per_cycle +
                      (w.narrow_a + w.narrow_b) * c.k * narrow_line;
  const double held_up = c.roles == Roles::pingpong || c.consumers == 1 ? 1 : 1.01;
  const double stored = up(c.n, 64) * (c.m / c.sharers() / 64) * 300 * (w.element_stores ? element_box / 3 : 1);
  const double meeting = split.pieces > 1 ? (1 + pieces) * c.m * c.n * 4 / 22 : 0;
  const double round = std::ceil(stages / pieces) * held_up * both(multiply, load, 12) +
                       (c.roles == Roles::pingpong ? 60 : stored) + meeting;
  const double rounds = std::ceil(tiles * pieces / sms);
  const double fixed = 2800 + stored + (c.m + c.n) * 2.0 * c.k / l2_per_cycle * (c.k / 64) +
                       (split.pieces > 1 ? 1700 : 0) + w.copies * 3000.0 + w.copied_bytes * 2 / 1400;
  const double busy = std::min(1.0, tiles * stages * multiply / sms / (fixed + rounds * round));
  const double hz = most_hz - (most_hz - least_hz) * busy;  // the power limit lowers the clock
  return fixed / most_hz + both(rounds * round / hz, w.minimum_bytes / memory_per_s, 4);
}

}  // namespace

bool is_busy(const TileWork& w) {
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
  return multiplies / 473e12 > w.minimum_bytes / 4.2e12;  // 132 * 2048 a cycle at 1.75 GHz
}

double predicted_seconds(const MatmulConfig& c, const TileWork& w, const Split& split, int sms) {
  if (is_busy(w)) return busy_seconds(c, w, split, sms);
  const double tiles =
      static_cast<double>(w.batch) * up(static_cast<double>(w.m), c.m) * up(static_cast<double>(w.n), c.n);
  const double stages = up(static_cast<double>(w.k), c.k), pieces = split.pieces, items = tiles * pieces;
  const Cycles x = cycles(c, w);
  const double asked = tiles * stages * (c.m + c.n) * c.k * 2;
  const double bytes = w.minimum_bytes + std::max(asked - w.minimum_bytes, 0.0) * memory / l2_again;
  double us = 0;
  if (split.cuts == Cuts::streamed) {
    const double run = up(tiles * stages, sms) * x.stage + 2 * meeting(c, split);
    us = stream_us + both(run / cycles_per_us, bytes / memory, overlap);
  } else {
    const double loop = up(stages, pieces) * x.stage;
    const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + tile_end_alone;
    const double item = (loop + end + (split.pieces > 1 ? meeting(c, split) : 0)) / cycles_per_us;
    const double at_once = split.cuts == Cuts::shared ? pieces * std::floor(clusters(split.pieces) * sms / 132) : sms;
    const double waves = std::floor(items / at_once), rest = items - waves * at_once;
    if (split.cuts == Cuts::shared) us = (std::ceil(items / at_once) - 1) * next_cluster / cycles_per_us;
    us += waves * both(item, bytes / items * at_once / memory, overlap);
    if (rest > 0) us += both(item, bytes / items * rest / std::min(memory, rest * memory_per_block), overlap);
  }
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / cycles_per_us / us);
  us *= 1 + busy_slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us += (first_load + (c.m + c.n) * c.k * 2 / (c.swap ? l2_swapped : l2_straight)) / cycles_per_us;
  if (c.roles == Roles::pingpong) us += x.end / cycles_per_us;
  return (us + w.copies * copy_us + 2 * w.copied_bytes / copied) * 1e-6;
}

BlockPace block_pace(const MatmulConfig& c) {
  const Cycles one = cycles(c, {});
  return {cycles_per_us * 1e6, c.swap ? l2_swapped : l2_straight,
          first_load,          2.0 * c.m * c.n * c.k / one.multiply,
          64 * 64 * 2 / box,   tile_end};
}

}  // namespace ridge::kernels::cuda
