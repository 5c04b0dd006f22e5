// Predicts the time of a plan from cycles and bytes. A 128 x 128 tile of bf16 takes 512 cycles per 64 of k on the
// tensor cores (2048 multiply-adds per cycle), and its loads from the L2 take as long. The time of compute-bound
// products depends on the number and width of waves of tiles; that of others on bytes, launch overhead and the
// reduction of splits.
//
// The formula follows the hardware; its constants are fitted for each `Bound` (fitted.h).
#include "ridge/ops/product/closed_form.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/portable_math.h"
#include "ridge/ops/fitted.h"

namespace ridge::ops::cuda {
namespace {

using tile::SplitMode, tile::Major, tile::Roles;

double up(double x, double by) { return std::ceil(x / by); }
// Returns the time of two overlapping activities: their p-norm. A higher power means a better overlap.
double both(double x, double y, double power) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  if (shorter <= 0) return longer;
  return longer * portable::pow(1 + portable::pow(shorter / longer, power), 1 / power);
}

struct Cycles {  // Cycles of one block: per stage, and at the end of a tile
  double multiply, load, stage, end;
};

double line_factor(const Constants& f, int granule, Major major) {
  const double across = major == Major::mn ? f.across : 1;
  if (granule >= 128) return across;
  if (granule == 64) return across * f.line64;
  return across * (granule == 32 ? f.line32 : f.line16);
}

// Number of clusters that read the same lines of A, and of B, concurrently, as tiles are walked in bands of 8 rows
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

// Returns the cycles to add the splits of a tile.
double meeting(const Constants& f, const MatmulConfig& c, const SplitK& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.sharers(), splits = split.splits;  // `sums` per thread
  if (split.split_mode == SplitMode::cluster_split_k) return f.share + f.share_step * std::ceil(sums / 4 / splits);
  if (split.split_mode == SplitMode::cooperative_split_k)
    return f.gather + f.gather_sums * sums / 64 + f.gather_turn * up(c.turns(), splits) * up(splits, 8);
  const double at_once = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = up(split.split_mode == SplitMode::stream_k ? 2 : splits, at_once);
  return f.split + f.split_sums * sums / 64 + f.split_batch * batches * std::max(1.0, portable::pow(sums / 64, 0.7));
}

struct Waves {
  double stages, items, at_once, bytes;  // `stages` per item
};
// Rates that a kernel with a given bound achieves on a device.
struct Pace {
  const Constants& f;
  double cycles_per_us;
  double memory, memory_of_block, l2_again, l2_all;  // Bytes per us
};
Pace pace_of(const Constants& f, const DeviceNumbers& device, Bound bound) {
  const double cycles_per_us = 1e-6 * (bound == Bound::multiplies ? device.busy_clock_hz : device.clock_hz);
  const double memory = 1e-6 * device.memory_bytes_per_s, l2 = 1e-6 * device.l2_bytes_per_s;
  return {f, cycles_per_us, f.memory * memory, f.memory_per_block * cycles_per_us, f.l2_again * l2, f.l2_all * l2};
}

double waves_us(const Pace& pace, const MatmulConfig& c, const SplitK& split, const Cycles& x, const Waves& w) {
  const Constants& f = pace.f;
  const double loop = w.stages * x.stage;
  const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + f.tile_end_alone;
  const double item = (loop + end + (split.splits > 1 ? meeting(f, c, split) : 0)) / pace.cycles_per_us;
  const double waves = std::floor(w.items / w.at_once), rest = w.items - waves * w.at_once;
  double us = 0;
  if (split.split_mode == SplitMode::cluster_split_k)
    us = (std::ceil(w.items / w.at_once) - 1) * f.next_cluster / pace.cycles_per_us;
  us += waves * both(item, w.bytes / w.items * w.at_once / pace.memory, f.overlap);
  if (rest > 0)
    us += both(item, w.bytes / w.items * rest / std::min(pace.memory, rest * pace.memory_of_block), f.overlap);
  return us;
}
// A copy reads and writes the operand. The fitted bandwidth includes the cost of reading the copy, mostly from the L2.
double copying_us(const Pace& pace, const TileWork& w, const DeviceNumbers& device) {
  return w.copies * pace.f.copy / pace.cycles_per_us +
         2 * w.copied_bytes / (pace.f.copied * 1e-6 * device.memory_bytes_per_s);
}

}  // namespace

Bound bound_of(const TileWork& w, const DeviceNumbers& device) {
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
  const double at_once = device.multiprocessors * kernel_numbers().multiplies * device.clock_hz;
  if (multiplies / at_once > w.minimum_bytes / device.memory_bytes_per_s) return Bound::multiplies;
  return w.result_bytes > w.minimum_bytes / 2 ? Bound::results : Bound::bytes;
}

// A cluster must fit in one group of multiprocessors (GPC), and clusters do not always fill a group.
int clusters_at_once(int blocks, int multiprocessors) {
  const DeviceShares& n = device_shares();
  const double shares[] = {n.clusters_1, n.clusters_2, n.clusters_3, n.clusters_4,
                           n.clusters_5, n.clusters_6, n.clusters_7, n.clusters_8};
  const double count = shares[blocks - 1] * multiprocessors / blocks;
  return std::max(1, static_cast<int>(count + 1e-6));
}

double predicted_seconds(const MatmulConfig& c, const TileWork& w, const SplitK& split, const DeviceNumbers& device,
                         const ProductModel& model) {
  const Bound bound = bound_of(w, device);
  const Constants& f = of(model.constants, bound);
  const Pace pace = pace_of(f, device, bound);
  const int sms = device.multiprocessors;
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
  const double once = w.minimum_bytes + std::max(asked - w.minimum_bytes, 0.0) * pace.memory / pace.l2_again;
  const double bytes = both(once, asked * pace.memory / pace.l2_all, f.l2_power);  // Equivalent memory bytes
  double us = 0;
  if (streamed) {
    const double run = up(tiles * stages, sms) * x.stage + 2 * meeting(f, c, split);
    us = f.stream / pace.cycles_per_us + both(run / pace.cycles_per_us, bytes / pace.memory, f.overlap);
  } else {
    us = waves_us(pace, c, split, x, {up(stages, splits), items, at_once, bytes});
  }
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / pace.cycles_per_us / us);
  us *= 1 + f.slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us +=
      (f.launch + f.first_load + (c.m + c.n) * c.k * 2 / (c.swap ? f.l2_swapped : f.l2_straight)) / pace.cycles_per_us;
  if (c.cluster() > 1)
    us += (f.cluster_start + f.cluster_block * blocks * portable::log2(c.cluster())) / pace.cycles_per_us;
  if (c.cluster() == 8 && items > 3 * at_once) us *= f.eights;
  if (c.roles == Roles::pingpong) us += x.end / pace.cycles_per_us;
  us -= std::clamp((sms - blocks) / blocks, 0.0, 1.0) * (w.prefetch_constants ? f.beside_prefetch : f.beside) /
        pace.cycles_per_us;
  return (us + (w.prefetch_constants ? f.under_copy : 1) * copying_us(pace, w, device)) * 1e-6;
}

double gemv_seconds(const GemvWork& w, const DeviceNumbers& device) {
  const KernelNumbers& n = kernel_numbers();
  const double words = std::ceil(static_cast<double>(w.k) * 2 / std::min(w.granule, 8));
  const double lines = static_cast<double>(w.batch) * static_cast<double>(w.n), rows = static_cast<double>(w.m);
  const double each = n.gemv_line + words * (1 + rows) * n.gemv_word / 32;
  const double bytes = 2 * lines * static_cast<double>(w.k);
  return device.launch_s +
         std::max(lines * each / device.multiprocessors / device.clock_hz, bytes / device.memory_bytes_per_s);
}

BlockPace block_pace(const MatmulConfig& c) {
  const Constants& f = of(product_model().constants, Bound::multiplies);
  const Cycles one = cycles(f, c, {}, {});
  return {.load_bytes = c.swap ? f.l2_swapped : f.l2_straight,
          .load_latency = f.first_load,
          .flops = 2.0 * c.m * c.n * c.k / one.multiply,
          .store_bytes = 64 * 64 * 2 / f.box,
          .store_latency = f.tile_end + f.tile_end_alone};
}

}  // namespace ridge::ops::cuda
