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

double ceil_quotient(double x, double by) { return std::ceil(x / by); }
// Returns the time of two overlapping activities: their p-norm. A higher power means a better overlap.
double overlap_times(double x, double y, double power) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  if (shorter <= 0) return longer;
  return longer * base::pow(1 + base::pow(shorter / longer, power), 1 / power);
}

struct BlockCycles {  // Cycles of one block: per stage, and at the end of a tile
  double multiply, load, stage, end;
};

double line_factor(const ClosedFormConstants& f, int alignment, Major major) {
  const double across = major == Major::mn ? f.across : 1;
  if (alignment >= 128) return across;
  if (alignment == 64) return across * f.line64;
  return across * (alignment == 32 ? f.line32 : f.line16);
}

// Number of clusters that read the same lines of A, and of B, concurrently, as tiles are walked in bands of 8 rows
// (tile_scheduler.h).
struct ConcurrentReaders {
  double a = 1, b = 1;
};
ConcurrentReaders count_readers(const MatmulConfig& c, const TileWork& w, double clusters) {
  const double rows = ceil_quotient(static_cast<double>(w.m), c.m * c.cluster_m),
               cols = ceil_quotient(static_cast<double>(w.n), c.n * c.cluster_n);
  const double across = std::min(cols, std::max(1.0, clusters / std::min(8.0, rows)));
  return {across, clusters / across};
}

BlockCycles count_block_cycles(const ClosedFormConstants& f, const MatmulConfig& c, const TileWork& w,
                               const ConcurrentReaders& concurrent) {
  const double rate = c.swap ? f.l2_swapped : f.l2_straight;
  const double multiply = c.m / 64.0 * (c.k / 16.0) * std::max(c.n / 2.0, f.reads_a + c.n / 4.0);
  const double lines = static_cast<double>(c.m) / c.cluster_n * line_factor(f, w.alignment_a, c.a) +
                       static_cast<double>(c.n) / c.cluster_m * line_factor(f, w.alignment_b, c.b);
  const double narrow_readers = (w.narrow_a ? concurrent.a * 64 / static_cast<double>(w.m) : 0) +
                                (w.narrow_b ? concurrent.b * 64 / static_cast<double>(w.n) : 0);
  const double load =
      std::max(lines * c.k * 2 / rate, (c.m + c.n) * c.k * 2 / f.arriving) + narrow_readers * f.narrow_line;
  const double wait = c.roles == Roles::cooperative && c.consumers > 1 ? f.both_wait : 1;
  const double boxes = ceil_quotient(c.n, 64) * c.m / c.warpgroups_per_tile() / 64 * (w.element_stores ? f.element_box : 1);
  const double stage = std::max(wait * overlap_times(multiply, load, f.stage_power), f.least_stage * c.k / 128);
  return {multiply, load, stage + (c.cluster() > 1 ? f.cluster_stage : 0), f.tile_end + boxes * f.box};
}

// Returns the cycles to add the splits of a tile.
double count_split_cycles(const ClosedFormConstants& f, const MatmulConfig& c, const SplitK& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.warpgroups_per_tile(),
               splits = split.splits;  // `sums` per thread
  if (split.split_mode == SplitMode::cluster_split_k) return f.share + f.share_step * std::ceil(sums / 4 / splits);
  if (split.split_mode == SplitMode::cooperative_split_k)
    return f.gather + f.gather_sums * sums / 64 +
           f.gather_turn * ceil_quotient(c.epilogue_steps(), splits) * ceil_quotient(splits, 8);
  const double concurrent = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = ceil_quotient(split.split_mode == SplitMode::stream_k ? 2 : splits, concurrent);
  return f.split + f.split_sums * sums / 64 + f.split_batch * batches * std::max(1.0, base::pow(sums / 64, 0.7));
}

struct WaveWork {
  double stages, items, concurrent, bytes;  // `stages` per item
};
// Rates that a kernel with a given bound achieves on a device.
struct BoundRates {
  const ClosedFormConstants& f;
  double cycles_per_us;
  double memory, memory_of_block, l2_again, l2_all;  // Bytes per us
};
BoundRates make_bound_rates(const ClosedFormConstants& f, const DeviceNumbers& device, Bound bound) {
  const double cycles_per_us = 1e-6 * (bound == Bound::multiplies ? device.busy_clock_hz : device.clock_hz);
  const double memory = 1e-6 * device.memory_bytes_per_s, l2 = 1e-6 * device.l2_bytes_per_s;
  return {f, cycles_per_us, f.memory * memory, f.memory_per_block * cycles_per_us, f.l2_again * l2, f.l2_all * l2};
}

double predict_waves_us(const BoundRates& rates, const MatmulConfig& c, const SplitK& split, const BlockCycles& x,
                        const WaveWork& w) {
  const ClosedFormConstants& f = rates.f;
  const double loop = w.stages * x.stage;
  const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + f.tile_end_alone;
  const double item = (loop + end + (split.splits > 1 ? count_split_cycles(f, c, split) : 0)) / rates.cycles_per_us;
  const double waves = std::floor(w.items / w.concurrent), rest = w.items - waves * w.concurrent;
  double us = 0;
  if (split.split_mode == SplitMode::cluster_split_k)
    us = (std::ceil(w.items / w.concurrent) - 1) * f.next_cluster / rates.cycles_per_us;
  us += waves * overlap_times(item, w.bytes / w.items * w.concurrent / rates.memory, f.overlap);
  if (rest > 0)
    us +=
        overlap_times(item, w.bytes / w.items * rest / std::min(rates.memory, rest * rates.memory_of_block), f.overlap);
  return us;
}
// A copy reads and writes the operand. The fitted bandwidth includes the cost of reading the copy, mostly from the L2.
double predict_copy_us(const BoundRates& rates, const TileWork& w, const DeviceNumbers& device) {
  return w.copies * rates.f.copy / rates.cycles_per_us +
         2 * w.copied_bytes / (rates.f.copied * 1e-6 * device.memory_bytes_per_s);
}

}  // namespace

Bound find_bound(const TileWork& w, const DeviceNumbers& device) {
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
  const double concurrent = device.multiprocessors * kernel_numbers().multiplies * device.clock_hz;
  if (multiplies / concurrent > w.minimum_bytes / device.memory_bytes_per_s) return Bound::multiplies;
  return w.result_bytes > w.minimum_bytes / 2 ? Bound::results : Bound::bytes;
}

// A cluster must fit in one group of multiprocessors (GPC), and clusters do not always fill a group.
int count_concurrent_clusters(int blocks, int multiprocessors) {
  const DeviceFractions& n = device_fractions();
  const double shares[] = {n.clusters_1, n.clusters_2, n.clusters_3, n.clusters_4,
                           n.clusters_5, n.clusters_6, n.clusters_7, n.clusters_8};
  const double count = shares[blocks - 1] * multiprocessors / blocks;
  return std::max(1, static_cast<int>(count + 1e-6));
}

double predict_seconds(const MatmulConfig& c, const TileWork& w, const SplitK& split, const DeviceNumbers& device,
                       const ProductModel& model) {
  const Bound bound = find_bound(w, device);
  const ClosedFormConstants& f = select_bound(model.constants, bound);
  const BoundRates rates = make_bound_rates(f, device, bound);
  const int sms = device.multiprocessors;
  const double tiles = static_cast<double>(w.batch) * ceil_quotient(static_cast<double>(w.m), c.m * c.cluster_m) *
                       ceil_quotient(static_cast<double>(w.n), c.n * c.cluster_n) * c.cluster();
  const double stages = ceil_quotient(static_cast<double>(w.k), c.k), splits = split.splits, items = tiles * splits;
  const bool streamed = split.split_mode == SplitMode::stream_k;
  const int cluster_blocks = split.split_mode == SplitMode::cluster_split_k ? split.splits : c.cluster();
  const double concurrent = streamed ? sms : cluster_blocks * count_concurrent_clusters(cluster_blocks, sms);
  const double blocks = streamed ? sms : std::min(items, concurrent);
  const BlockCycles x = count_block_cycles(f, c, w, count_readers(c, w, std::max(1.0, blocks / c.cluster() / splits)));
  const double each = static_cast<double>(c.m) / c.cluster_n + static_cast<double>(c.n) / c.cluster_m;
  const double requested_bytes = tiles * stages * each * c.k * 2;
  const double unique_bytes =
      w.minimum_bytes + std::max(requested_bytes - w.minimum_bytes, 0.0) * rates.memory / rates.l2_again;
  const double bytes = overlap_times(unique_bytes, requested_bytes * rates.memory / rates.l2_all,
                                     f.l2_power);  // Equivalent memory bytes
  double us = 0;
  if (streamed) {
    const double run = ceil_quotient(tiles * stages, sms) * x.stage + 2 * count_split_cycles(f, c, split);
    us = f.stream / rates.cycles_per_us + overlap_times(run / rates.cycles_per_us, bytes / rates.memory, f.overlap);
  } else {
    us = predict_waves_us(rates, c, split, x, {ceil_quotient(stages, splits), items, concurrent, bytes});
  }
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / rates.cycles_per_us / us);
  us *= 1 + f.slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us +=
      (f.launch + f.first_load + (c.m + c.n) * c.k * 2 / (c.swap ? f.l2_swapped : f.l2_straight)) / rates.cycles_per_us;
  if (c.cluster() > 1)
    us += (f.cluster_start + f.cluster_block * blocks * base::log2(c.cluster())) / rates.cycles_per_us;
  if (c.cluster() == 8 && items > 3 * concurrent) us *= f.eights;
  if (c.roles == Roles::pingpong) us += x.end / rates.cycles_per_us;
  us -= std::clamp((sms - blocks) / blocks, 0.0, 1.0) * (w.prefetch_constants ? f.beside_prefetch : f.beside) /
        rates.cycles_per_us;
  return (us + (w.prefetch_constants ? f.under_copy : 1) * predict_copy_us(rates, w, device)) * 1e-6;
}

double predict_gemv_seconds(const GemvWork& w, const DeviceNumbers& device) {
  const KernelNumbers& n = kernel_numbers();
  const double words = std::ceil(static_cast<double>(w.k) * 2 / std::min(w.alignment, 8));
  const double lines = static_cast<double>(w.batch) * static_cast<double>(w.n), rows = static_cast<double>(w.m);
  const double each = n.gemv_line + words * (1 + rows) * n.gemv_word / 32;
  const double bytes = 2 * lines * static_cast<double>(w.k);
  return device.launch_s +
         std::max(lines * each / device.multiprocessors / device.clock_hz, bytes / device.memory_bytes_per_s);
}

BlockThroughput block_throughput(const MatmulConfig& c) {
  const ClosedFormConstants& f = select_bound(product_model().constants, Bound::multiplies);
  const BlockCycles one = count_block_cycles(f, c, {}, {});
  return {.load_bytes = c.swap ? f.l2_swapped : f.l2_straight,
          .load_latency = f.first_load,
          .flops = 2.0 * c.m * c.n * c.k / one.multiply,
          .store_bytes = 64 * 64 * 2 / f.box,
          .store_latency = f.tile_end + f.tile_end_alone};
}

}  // namespace ridge::ops::cuda
