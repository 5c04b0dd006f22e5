// The time of a plan, counted in cycles and bytes. A 128 x 128 tile of bf16 takes 512 cycles for 64 of k on the tensor
// cores (2048 multiply-adds a cycle) and as long on the way from the L2; what decides for busy products is how many
// waves of tiles there are times how wide they are, for the others the bytes, what a launch costs and how pieces of k
// meet.
//
// The form is physics; the constants are fitted, once for each of what may bound a product: 42,000 timings of some 550
// products (drawn at random, but for 119) under the 60 to 100 plans that looked best, on H200, 2026-11-22, clocks as
// they come, and of busy products 16,000 older ones of rows that have not changed. What was made small is what choosing
// by the model loses against the fastest plan timed. Of products that were not fitted to, it loses 2.0 % where
// multiplies bound, 2.9 % where operands do and 2.7 % where results do.
#include "ridge/ops/product/closed_form.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::ops::cuda {
namespace {

using tile::SplitMode, tile::Major, tile::Roles;

struct Constants {
  double cycles_per_us;
  double slowdown;                        // the power limit lowers the clock of long, busy kernels
  double memory, memory_per_block;        // bytes a us
  double l2_again, l2_all, l2_power;      // bytes a us that the L2 serves again; that it serves in all; overlap
  double l2_straight, l2_swapped;         // bytes a cycle that one block asks for
  double arriving;                        // … that arrive in it, most of them asked for by others of its cluster
  double reads_a, least_stage;            // cycles: of an instruction of 64 x n x 16; of 128 of k
  double line64, line32, line16, across;  // how much longer lines take that start there; contiguous along the output
  double narrow_line;                     // cycles a stage: for each who asks for the same few bytes at once
  double both_wait;                       // two consumers of a tile wait for each other
  double stage_power;                     // how well a stage's loads and multiplies overlap
  double launch, first_load, tile_end, tile_end_alone, box;  // cycles
  double element_box;                                        // boxes: written by elements
  double split, split_sums, split_batch;                     // cycles
  double gather, gather_sums, gather_turn;                   // cycles; of 16 columns, by up to eight pieces
  double share, share_step, next_cluster;                    // cycles
  double cluster_stage, cluster_block;                       // cycles: of waiting for each other; of launching
  double cluster_start;  // of any launch in clusters: its blocks begin and end together
  double eights;         // what more than three waves of clusters of eight take beside that
  double stream_us, copy_us;
  double copied;                   // bytes a us
  double under_copy;               // what is left of a copy's time where loads run under it
  double overlap;                  // two things at once: 1 would be one after the other, 8 the longer
  double beside, beside_prefetch;  // us that the next launch saves on idle multiprocessors; where it loads early
};

constexpr Constants by_bytes{.cycles_per_us = 1773,
                             .slowdown = 0.01494,
                             .memory = 6.416e+06,
                             .memory_per_block = 2.25e+05,
                             .l2_again = 3.017e+07,
                             .l2_all = 2.17e+07,
                             .l2_power = 3.05,
                             .l2_straight = 54.54,
                             .l2_swapped = 329.1,
                             .arriving = 125,
                             .reads_a = 21.54,
                             .least_stage = 175.8,
                             .line64 = 1.05,
                             .line32 = 1.062,
                             .line16 = 1.201,
                             .across = 0.9812,
                             .narrow_line = 2.153,
                             .both_wait = 1.159,
                             .stage_power = 4.036,
                             .launch = 1908,
                             .first_load = 1022,
                             .tile_end = 150.6,
                             .tile_end_alone = 117.6,
                             .box = 305.8,
                             .element_box = 3.417,
                             .split = 733.9,
                             .split_sums = 2487,
                             .split_batch = 846.1,
                             .gather = 2616,
                             .gather_sums = 3444,
                             .gather_turn = 937.2,
                             .share = 1597,
                             .share_step = 3535,
                             .next_cluster = 496.1,
                             .cluster_stage = 20.15,
                             .cluster_block = 3.977,
                             .cluster_start = 603.2,
                             .eights = 1.178,
                             .stream_us = 0.4636,
                             .copy_us = 1.613,
                             .copied = 2.433e+08,
                             .under_copy = 0.8849,
                             .overlap = 1.191,
                             .beside = 0.6094,
                             .beside_prefetch = 0.749};
constexpr Constants by_results{.cycles_per_us = 1773,
                               .slowdown = 0.5512,
                               .memory = 6.926e+06,
                               .memory_per_block = 6.355e+04,
                               .l2_again = 5.802e+08,
                               .l2_all = 6.335e+08,
                               .l2_power = 2.146,
                               .l2_straight = 57.22,
                               .l2_swapped = 65.37,
                               .arriving = 51.97,
                               .reads_a = 85.93,
                               .least_stage = 267.4,
                               .line64 = 1.737,
                               .line32 = 1.641,
                               .line16 = 2.22,
                               .across = 1.121,
                               .narrow_line = 2.921,
                               .both_wait = 0.8806,
                               .stage_power = 8.166,
                               .launch = 1919,
                               .first_load = 1319,
                               .tile_end = 47.86,
                               .tile_end_alone = 15.05,
                               .box = 5.469,
                               .element_box = 250.8,
                               .split = 1024,
                               .split_sums = 1879,
                               .split_batch = 738.1,
                               .gather = 1500,
                               .gather_sums = 2600,
                               .gather_turn = 900,
                               .share = 1426,
                               .share_step = 2763,
                               .next_cluster = 496.1,
                               .cluster_stage = 44.89,
                               .cluster_block = 7.045,
                               .cluster_start = 920.6,
                               .eights = 0.996,
                               .stream_us = 0.3912,
                               .copy_us = 2.803,
                               .copied = 2.941e+06,
                               .under_copy = 0.7627,
                               .overlap = 1.077,
                               .beside = 0.5539,
                               .beside_prefetch = 0.07802};
constexpr Constants by_multiplies{.cycles_per_us = 1675,
                                  .slowdown = 0.03229,
                                  .memory = 1.026e+08,
                                  .memory_per_block = 9.116e+05,
                                  .l2_again = 1.792e+08,
                                  .l2_all = 3.075e+07,
                                  .l2_power = 4.601,
                                  .l2_straight = 66.69,
                                  .l2_swapped = 70.51,
                                  .arriving = 64.85,
                                  .reads_a = 15.22,
                                  .least_stage = 471.6,
                                  .line64 = 1.267,
                                  .line32 = 1.304,
                                  .line16 = 1.934,
                                  .across = 1.033,
                                  .narrow_line = 3,
                                  .both_wait = 1.07,
                                  .stage_power = 13.7,
                                  .launch = 0,
                                  .first_load = 1718,
                                  .tile_end = 1650,
                                  .tile_end_alone = 7.978,
                                  .box = 173.5,
                                  .element_box = 15.7,
                                  .split = 1286,
                                  .split_sums = 2604,
                                  .split_batch = 1188,
                                  .gather = 5246,
                                  .gather_sums = 4695,
                                  .gather_turn = 900,
                                  .share = 1800,
                                  .share_step = 1300,
                                  .next_cluster = 2800,
                                  .cluster_stage = 39.14,
                                  .cluster_block = 0.08005,
                                  .cluster_start = 1488,
                                  .eights = 1,
                                  .stream_us = 1.275,
                                  .copy_us = 2.077,
                                  .copied = 2.732e+06,
                                  .under_copy = 0.7844,
                                  .overlap = 1.579,
                                  .beside = 0.9486,
                                  .beside_prefetch = 0.418};
double up(double x, double by) { return std::ceil(x / by); }
// What two things take that overlap; the higher the power, the better they do.
double both(double x, double y, double power) { return std::pow(std::pow(x, power) + std::pow(y, power), 1 / power); }

struct Cycles {  // of one block
  double multiply, load, stage, end;
};

double line_factor(const Constants& f, int granule, Major major) {
  const double across = major == Major::mn ? f.across : 1;
  return across * (granule >= 128 ? 1 : granule == 64 ? f.line64 : granule == 32 ? f.line32 : f.line16);
}

// How many clusters ask for the same lines of A, and of B, at once: tiles are walked in bands of 8 rows
// (tile_scheduler.h).
struct Askers {
  double a = 1, b = 1;
};
Askers askers(const MatmulConfig& c, const TileWork& w, double clusters) {
  const double rows = up(static_cast<double>(w.m), c.m * c.cluster_m),
               cols = up(static_cast<double>(w.n), c.n * c.cluster_n);
  const double across = std::min(cols, std::max(1.0, clusters / std::min(8.0, rows)));
  return {across, clusters / across};
}

Cycles cycles(const Constants& f, const MatmulConfig& c, const TileWork& w, const Askers& at_once) {
  const double rate = c.swap ? f.l2_swapped : f.l2_straight;
  const double multiply = c.m / 64.0 * (c.k / 16.0) * std::max(c.n / 2.0, f.reads_a + c.n / 4.0);
  const double lines = static_cast<double>(c.m) / c.cluster_n * line_factor(f, w.granule_a, c.a) +
                       static_cast<double>(c.n) / c.cluster_m * line_factor(f, w.granule_b, c.b);
  const double same = (w.narrow_a ? at_once.a * 64 / static_cast<double>(w.m) : 0) +
                      (w.narrow_b ? at_once.b * 64 / static_cast<double>(w.n) : 0);
  const double load = std::max(lines * c.k * 2 / rate, (c.m + c.n) * c.k * 2 / f.arriving) + same * f.narrow_line;
  const double wait = c.roles == Roles::cooperative && c.consumers > 1 ? f.both_wait : 1;
  const double boxes = up(c.n, 64) * c.m / c.sharers() / 64 * (w.element_stores ? f.element_box : 1);
  const double stage = std::max(wait * both(multiply, load, f.stage_power), f.least_stage * c.k / 128);
  return {multiply, load, stage + (c.cluster() > 1 ? f.cluster_stage : 0), f.tile_end + boxes * f.box};
}

// What it takes to add the pieces of a tile.
double meeting(const Constants& f, const MatmulConfig& c, const SplitK& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.sharers(), splits = split.splits;  // of a thread
  if (split.split_mode == SplitMode::cluster_split_k) return f.share + f.share_step * std::ceil(sums / 4 / splits);
  if (split.split_mode == SplitMode::cooperative_split_k)
    return f.gather + f.gather_sums * sums / 64 + f.gather_turn * up(c.turns(), splits) * up(splits, 8);
  const double at_once = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = up(split.split_mode == SplitMode::stream_k ? 2 : splits, at_once);
  return f.split + f.split_sums * sums / 64 + f.split_batch * batches * std::max(1.0, std::pow(sums / 64, 0.7));
}

struct Waves {
  double stages, items, at_once, bytes;  // stages of an item
};
double waves_us(const Constants& f, const MatmulConfig& c, const SplitK& split, const Cycles& x, const Waves& w) {
  const double loop = w.stages * x.stage;
  const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + f.tile_end_alone;
  const double item = (loop + end + (split.splits > 1 ? meeting(f, c, split) : 0)) / f.cycles_per_us;
  const double waves = std::floor(w.items / w.at_once), rest = w.items - waves * w.at_once;
  double us = 0;
  if (split.split_mode == SplitMode::cluster_split_k)
    us = (std::ceil(w.items / w.at_once) - 1) * f.next_cluster / f.cycles_per_us;
  us += waves * both(item, w.bytes / w.items * w.at_once / f.memory, f.overlap);
  if (rest > 0) us += both(item, w.bytes / w.items * rest / std::min(f.memory, rest * f.memory_per_block), f.overlap);
  return us;
}
constexpr double least_us = 0.8;  // of any launch

}  // namespace

Bound bound_of(const TileWork& w) {
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
  if (multiplies / 473e12 > w.minimum_bytes / 4.2e12) return Bound::multiplies;  // 132 * 2048 a cycle at 1.75 GHz
  return w.result_bytes > w.minimum_bytes / 2 ? Bound::results : Bound::bytes;
}

// A cluster's blocks lie in one of the chip's groups of 16 or 18 multiprocessors.
int clusters_at_once(int blocks, int sms) {
  constexpr std::array of_h200{132, 66, 39, 30, 22, 17, 15, 15};
  return std::max(1, of_h200[static_cast<std::size_t>(blocks - 1)] * sms / 132);
}

double predicted_seconds(const MatmulConfig& c, const TileWork& w, const SplitK& split, int sms) {
  const Bound bound = bound_of(w);
  const Constants& f = bound == Bound::bytes ? by_bytes : bound == Bound::results ? by_results : by_multiplies;
  const double tiles = static_cast<double>(w.batch) * up(static_cast<double>(w.m), c.m * c.cluster_m) *
                       up(static_cast<double>(w.n), c.n * c.cluster_n) * c.cluster();
  const double stages = up(static_cast<double>(w.k), c.k), splits = split.splits, items = tiles * splits;
  const bool streamed = split.split_mode == SplitMode::stream_k;
  const int together = split.split_mode == SplitMode::cluster_split_k ? split.splits : c.cluster();
  const double at_once = streamed ? sms : together * clusters_at_once(together, sms);
  const double blocks = streamed ? sms : std::min(items, at_once);
  const Cycles x = cycles(f, c, w, askers(c, w, std::max(1.0, blocks / c.cluster() / splits)));
  const double each = static_cast<double>(c.m) / c.cluster_n + static_cast<double>(c.n) / c.cluster_m;
  const double asked = tiles * stages * each * c.k * 2;
  const double once = w.minimum_bytes + std::max(asked - w.minimum_bytes, 0.0) * f.memory / f.l2_again;
  const double bytes = both(once, asked * f.memory / f.l2_all, f.l2_power);  // as many as would take as long
  double us = 0;
  if (streamed) {
    const double run = up(tiles * stages, sms) * x.stage + 2 * meeting(f, c, split);
    us = f.stream_us + both(run / f.cycles_per_us, bytes / f.memory, f.overlap);
  } else {
    us = waves_us(f, c, split, x, {up(stages, splits), items, at_once, bytes});
  }
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / f.cycles_per_us / us);
  us *= 1 + f.slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us += (f.launch + f.first_load + (c.m + c.n) * c.k * 2 / (c.swap ? f.l2_swapped : f.l2_straight)) / f.cycles_per_us;
  if (c.cluster() > 1) us += (f.cluster_start + f.cluster_block * blocks * std::log2(c.cluster())) / f.cycles_per_us;
  if (c.cluster() == 8 && items > 3 * at_once) us *= f.eights;
  if (c.roles == Roles::pingpong) us += x.end / f.cycles_per_us;
  us -= std::clamp((sms - blocks) / blocks, 0.0, 1.0) * (w.prefetch_constants ? f.beside_prefetch : f.beside);
  // What a copy has written is read from the L2, as long as that keeps it.
  constexpr double kept_bytes = 25e6, beyond_a_us = 2.3e6;
  const double copying =
      w.copies * f.copy_us + 2 * w.copied_bytes / f.copied + std::max(0.0, w.copied_bytes - kept_bytes) / beyond_a_us;
  return (std::max(us, least_us) + (w.prefetch_constants ? f.under_copy : 1) * copying) * 1e-6;
}

double gemv_seconds(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, int granule) {
  constexpr double words_at_once = 8 * 32 * 4;  // of a line (matmul_plain.cu)
  constexpr double launch_us = 2.1, round_us = 0.7, line_us = 1.2e-4, row_us = 1e-4;
  constexpr double words_a_us = 132 * 32 * 1755;         // fitted to ten products on an H200
  constexpr double word_cycles = 7.5, row_cycles = 3.2;  // of a warp
  const double words = std::ceil(static_cast<double>(k) * 2 / std::min(granule, 8));
  const double rounds = std::ceil(words / words_at_once);
  const double lines = static_cast<double>(batch) * static_cast<double>(n), rows = static_cast<double>(m);
  return (launch_us + (rounds - 1) * round_us + lines * (line_us + (rows - 1) * row_us) +
          lines * words * (word_cycles + rows * row_cycles) / words_a_us) *
         1e-6;
}

BlockPace block_pace(const MatmulConfig& c) {
  const Constants& f = by_bytes;
  const Cycles one = cycles(f, c, {}, {});
  return {.cycles_per_second = f.cycles_per_us * 1e6,
          .load_bytes = c.swap ? f.l2_swapped : f.l2_straight,
          .load_latency = f.first_load,
          .flops = 2.0 * c.m * c.n * c.k / one.multiply,
          .store_bytes = 64 * 64 * 2 / f.box,
          .store_latency = f.tile_end + f.tile_end_alone};
}

}  // namespace ridge::ops::cuda
