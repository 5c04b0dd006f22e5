// The time of a plan, counted in cycles and bytes. A 128 x 128 tile of bf16 takes 512 cycles for 64 of k on the tensor
// cores (2048 multiply-adds a cycle) and as long on the way from the L2; what decides for busy products is how many
// waves of tiles there are times how wide they are, for the others the bytes, what a launch costs and how pieces of k
// meet.
//
// The form is physics, the constants are fitted, once for products that the bytes bound and once for those that the
// multiplies bound: 26,900 timings of 1,181 products under the 24 plans that looked best, on one H200, 2026-11-22,
// clocks as they come. What was made small is what choosing by the model loses against the fastest plan timed.
#include "ridge/kernels/matmul_model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::kernels::cuda {
namespace {

using tile::Cuts, tile::Major, tile::Roles;

struct Constants {
  double cycles_per_us;
  double slowdown;                        // the power limit lowers the clock of long, busy kernels
  double memory, memory_per_block;        // bytes a us
  double l2_again, l2_all, l2_power;      // bytes a us that the L2 serves again; that it serves in all; overlap
  double l2_straight, l2_swapped;         // bytes a cycle into one block
  double reads_a, least_stage;            // cycles: of an instruction of 64 x n x 16; of 128 of k
  double line64, line32, line16, across;  // how much longer lines take that start there; contiguous along the output
  double narrow_line;                     // cycles: the copy engine takes as long for lines of a few bytes
  double both_wait;                       // two consumers of a tile wait for each other
  double stage_power;                     // how well a stage's loads and multiplies overlap
  double first_load, tile_end, tile_end_alone, box;  // cycles
  double element_box;                                // boxes: written by elements
  double piece, piece_sums, piece_batch;             // cycles
  double share, share_step, next_cluster;            // cycles
  double stream_us, copy_us;
  double copied;   // bytes a us
  double overlap;  // two things at once: 1 would be one after the other, 8 the longer
};

constexpr Constants by_bytes{.cycles_per_us = 1773,
                             .slowdown = 0.01868,
                             .memory = 5.13e+06,
                             .memory_per_block = 1.48e+05,
                             .l2_again = 3.54e+07,
                             .l2_all = 3.17e+07,
                             .l2_power = 3.262,
                             .l2_straight = 75.83,
                             .l2_swapped = 111,
                             .reads_a = 24.5,
                             .least_stage = 267.4,
                             .line64 = 1.186,
                             .line32 = 1.193,
                             .line16 = 1.803,
                             .across = 1.032,
                             .narrow_line = 2.467,
                             .both_wait = 1.07,
                             .stage_power = 11.21,
                             .first_load = 1767,
                             .tile_end = 602.9,
                             .tile_end_alone = 711,
                             .box = 133.6,
                             .element_box = 27.76,
                             .piece = 1610,
                             .piece_sums = 1879,
                             .piece_batch = 444.6,
                             .share = 1423,
                             .share_step = 2709,
                             .next_cluster = 496.1,
                             .stream_us = 0.3912,
                             .copy_us = 3.492,
                             .copied = 6.91e+06,
                             .overlap = 1.317};
constexpr Constants by_multiplies{.cycles_per_us = 1750,
                                  .slowdown = 0.1231,
                                  .memory = 7.84e+06,
                                  .memory_per_block = 1.29e+06,
                                  .l2_again = 3.89e+07,
                                  .l2_all = 2.7e+07,
                                  .l2_power = 4.001,
                                  .l2_straight = 75.6,
                                  .l2_swapped = 96.7,
                                  .reads_a = 24.5,
                                  .least_stage = 396.7,
                                  .line64 = 1.211,
                                  .line32 = 1.437,
                                  .line16 = 2.139,
                                  .across = 1.192,
                                  .narrow_line = 25,
                                  .both_wait = 1.07,
                                  .stage_power = 9.287,
                                  .first_load = 2252,
                                  .tile_end = 704.7,
                                  .tile_end_alone = 875,
                                  .box = 133,
                                  .element_box = 60.12,
                                  .piece = 2554,
                                  .piece_sums = 2185,
                                  .piece_batch = 461.4,
                                  .share = 1800,
                                  .share_step = 1300,
                                  .next_cluster = 2800,
                                  .stream_us = 1.22,
                                  .copy_us = 2.072,
                                  .copied = 3.37e+06,
                                  .overlap = 1.579};
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

double line_factor(const Constants& f, int granule, Major major) {
  const double across = major == Major::mn ? f.across : 1;
  return across * (granule >= 128 ? 1 : granule == 64 ? f.line64 : granule == 32 ? f.line32 : f.line16);
}

Cycles cycles(const Constants& f, const MatmulConfig& c, const TileWork& w) {
  const double rate = c.swap ? f.l2_swapped : f.l2_straight;
  const double multiply = c.m / 64.0 * (c.k / 16.0) * std::max(c.n / 2.0, f.reads_a + c.n / 4.0);
  const double lines = c.m * line_factor(f, w.granule_a, c.a) + c.n * line_factor(f, w.granule_b, c.b);
  const double load = lines * c.k * 2 / rate + (w.narrow_a + w.narrow_b) * c.k * f.narrow_line;
  const double wait = c.roles == Roles::cooperative && c.consumers == 2 ? f.both_wait : 1;
  const double boxes = up(c.n, 64) * c.m / c.sharers() / 64 * (w.element_stores ? f.element_box : 1);
  return {multiply, load, std::max(wait * both(multiply, load, f.stage_power), f.least_stage * c.k / 128),
          f.tile_end + boxes * f.box};
}

// What it takes to add the pieces of a tile.
double meeting(const Constants& f, const MatmulConfig& c, const Split& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.sharers(), pieces = split.pieces;  // of a thread
  if (split.cuts == Cuts::shared) return f.share + f.share_step * std::ceil(sums / 4 / pieces);
  const double at_once = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = up(split.cuts == Cuts::streamed ? 2 : pieces, at_once);
  return f.piece + f.piece_sums * sums / 64 + f.piece_batch * batches * std::max(1.0, std::pow(sums / 64, 0.7));
}

}  // namespace

bool is_busy(const TileWork& w) {
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
  return multiplies / 473e12 > w.minimum_bytes / 4.2e12;  // 132 * 2048 a cycle at 1.75 GHz
}

double predicted_seconds(const MatmulConfig& c, const TileWork& w, const Split& split, int sms) {
  const Constants& f = is_busy(w) ? by_multiplies : by_bytes;
  const double tiles =
      static_cast<double>(w.batch) * up(static_cast<double>(w.m), c.m) * up(static_cast<double>(w.n), c.n);
  const double stages = up(static_cast<double>(w.k), c.k), pieces = split.pieces, items = tiles * pieces;
  const Cycles x = cycles(f, c, w);
  const double asked = tiles * stages * (c.m + c.n) * c.k * 2;
  const double once = w.minimum_bytes + std::max(asked - w.minimum_bytes, 0.0) * f.memory / f.l2_again;
  const double bytes = both(once, asked * f.memory / f.l2_all, f.l2_power);  // as many as would take as long
  double us = 0;
  if (split.cuts == Cuts::streamed) {
    const double run = up(tiles * stages, sms) * x.stage + 2 * meeting(f, c, split);
    us = f.stream_us + both(run / f.cycles_per_us, bytes / f.memory, f.overlap);
  } else {
    const double loop = up(stages, pieces) * x.stage;
    const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + f.tile_end_alone;
    const double item = (loop + end + (split.pieces > 1 ? meeting(f, c, split) : 0)) / f.cycles_per_us;
    const double at_once = split.cuts == Cuts::shared ? pieces * std::floor(clusters(split.pieces) * sms / 132) : sms;
    const double waves = std::floor(items / at_once), rest = items - waves * at_once;
    if (split.cuts == Cuts::shared) us = (std::ceil(items / at_once) - 1) * f.next_cluster / f.cycles_per_us;
    us += waves * both(item, bytes / items * at_once / f.memory, f.overlap);
    if (rest > 0) us += both(item, bytes / items * rest / std::min(f.memory, rest * f.memory_per_block), f.overlap);
  }
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / f.cycles_per_us / us);
  us *= 1 + f.slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us += (f.first_load + (c.m + c.n) * c.k * 2 / (c.swap ? f.l2_swapped : f.l2_straight)) / f.cycles_per_us;
  if (c.roles == Roles::pingpong) us += x.end / f.cycles_per_us;
  return (us + w.copies * f.copy_us + 2 * w.copied_bytes / f.copied) * 1e-6;
}

BlockPace block_pace(const MatmulConfig& c) {
  const Constants& f = by_bytes;
  const Cycles one = cycles(f, c, {});
  return {.cycles_per_second = f.cycles_per_us * 1e6,
          .load_bytes = c.swap ? f.l2_swapped : f.l2_straight,
          .load_latency = f.first_load,
          .flops = 2.0 * c.m * c.n * c.k / one.multiply,
          .store_bytes = 64 * 64 * 2 / f.box,
          .store_latency = f.tile_end};
}

}  // namespace ridge::kernels::cuda
