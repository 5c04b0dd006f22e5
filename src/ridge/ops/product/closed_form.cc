// Predicts the time of a plan from cycles and bytes. A 128 x 128 tile of bf16 takes 512 cycles per 64 of k on the
// tensor cores (2048 multiply-adds per cycle), and its loads from the L2 take as long. The time of compute-bound
// products depends on the number and width of waves of tiles; that of others on bytes, launch overhead and the
// reduction of splits.
//
// The formula follows the hardware; its constants are fitted for each `BoundKind` (fitted.h).
#include "ridge/ops/product/closed_form.h"

#include "ridge/ops/product/operands.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/ceil_div.h"
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

struct BlockCycles {  // Cycles of one block: per stage (multiplies, loads, both), and at the end of a tile
  double multiply, load, stage, end;
};

double unaligned_load_factor(const ClosedFormConstants& f, int alignment, Major major) {
  const double across = major == Major::mn ? f.mn_major_factor : 1;
  if (alignment >= 128) return across;
  if (alignment == 64) return across * f.line64_factor;
  return across * (alignment == 32 ? f.line32_factor : f.line16_factor);
}

// Numbers of clusters that concurrently read the same lines of A, and of B, if the tile scheduler uses bands of 8 rows
// of tiles (tile_scheduler.h).
struct ConcurrentReaders {
  double a = 1, b = 1;
};
ConcurrentReaders count_readers(const MatmulConfig& c, const TileWork& w, double clusters) {
  const double rows = ceil_quotient(static_cast<double>(w.size.m), c.m * c.cluster_m),
               cols = ceil_quotient(static_cast<double>(w.size.n), c.n * c.cluster_n);
  const double across = std::min(cols, std::max(1.0, clusters / std::min(8.0, rows)));
  return {across, clusters / across};
}

// Returns the cycles of a stage in which the tensor cores wait for threads: those that add pieces of the sums
// (tile/sum_pieces.h) and multiply them by scales, and those that load the left operand to registers.
double count_stalled_cycles(const MatmulConfig& c, const TileWork& w) {
  const KernelConstants& n = kernel_constants();
  if (c.adds_pieces) {
    const tile::SumPieces pieces{c.m / c.warpgroups_per_tile(), c.n, c.warpgroups_per_tile()};
    const double rounds = static_cast<double>(c.k) * w.operand_bytes() / tile::SumPieces::added_bytes,
                 scales = c.scales_blocks ? n.scaled_stage_cycles + c.m * c.n / 128.0 * n.scaled_column_cycles : 0;
    return rounds * (pieces.count() * n.piece_cycles + scales);
  }
  return c.a == Major::mn && w.operand_bytes() == 4 ? n.left_load_cycles : 0;
}

BlockCycles count_block_cycles(const ClosedFormConstants& f, const MatmulConfig& c, const TileWork& w,
                               const ConcurrentReaders& concurrent) {
  const double rate = c.swap ? f.swapped_l2_rate : f.unswapped_l2_rate;
  const double multiply = c.m / 64.0 * (static_cast<double>(c.k) * w.operand_bytes() / wgmma_bytes) *
                          std::max(c.n / 2.0, f.read_a_cycles + c.n / 4.0);
  const double lines = static_cast<double>(c.m) / c.cluster_n * unaligned_load_factor(f, w.alignment_a, c.a) +
                       static_cast<double>(c.n) / c.cluster_m * unaligned_load_factor(f, w.alignment_b, c.b);
  const double box = swizzle_bytes / w.operand_bytes();  // Elements of a line in a box
  const double narrow_readers = (w.narrow_a ? concurrent.a * box / static_cast<double>(w.size.m) : 0) +
                                (w.narrow_b ? concurrent.b * box / static_cast<double>(w.size.n) : 0);
  const double load =
      std::max(lines * c.k * w.operand_bytes() / rate, (c.m + c.n) * c.k * w.operand_bytes() / f.arrival_rate) +
      narrow_readers * f.narrow_line_cycles;
  const double wait = c.roles == Roles::cooperative && c.consumers > 1 ? f.cooperative_factor : 1;
  const double boxes =
      ceil_quotient(c.n, 64) * c.m / c.warpgroups_per_tile() / 64 * (w.element_stores ? f.element_store_factor : 1);
  const double stage =
      std::max(wait * overlap_times(multiply, load, f.stage_overlap_power), f.min_stage_cycles * c.k / 128);
  return {multiply, load, stage + (c.cluster() > 1 ? f.cluster_stage_cycles : 0) + count_stalled_cycles(c, w),
          f.tile_end_cycles + boxes * f.store_box_cycles};
}

// Returns the cycles to add the splits of a tile.
double count_split_cycles(const ClosedFormConstants& f, const MatmulConfig& c, const SplitK& split) {
  const double sums = static_cast<double>(c.m) * c.n / 128 / c.warpgroups_per_tile();  // Per thread
  const double splits = split.splits;
  if (split.split_mode == SplitMode::cluster_split_k)
    return f.cluster_split_cycles + f.cluster_split_step_cycles * std::ceil(sums / 4 / splits);
  if (split.split_mode == SplitMode::cooperative_split_k)
    return f.cooperative_cycles + f.cooperative_sum_cycles * sums / 64 +
           f.cooperative_step_cycles * ceil_quotient(c.epilogue_steps(), splits) * ceil_quotient(splits, 8);
  const double concurrent = std::max(1.0, std::floor((c.consumers == 1 ? 64 : 32) / sums)),
               batches = ceil_quotient(split.split_mode == SplitMode::stream_k ? 2 : splits, concurrent);
  return f.split_k_cycles + f.split_k_sum_cycles * sums / 64 +
         f.split_k_batch_cycles * batches * std::max(1.0, base::pow(sums / 64, 0.7));
}

struct WaveWork {
  double stages, items, concurrent, bytes;  // `stages` per item
};
// Rates that kernels with a given limiter achieve on a device.
struct BoundRates {
  const ClosedFormConstants& f;
  double cycles_per_us;
  double memory, block_memory, l2_repeat, l2_total;  // Bytes per us
};
BoundRates make_bound_rates(const ClosedFormConstants& f, const DeviceNumbers& device, BoundKind bound) {
  const double cycles_per_us = 1e-6 * (bound == BoundKind::multiplies ? device.busy_clock_hz : device.clock_hz);
  const double memory = 1e-6 * device.memory_bytes_per_s, l2 = 1e-6 * device.l2_bytes_per_s;
  return {f,
          cycles_per_us,
          f.memory_share * memory,
          f.memory_per_block * cycles_per_us,
          f.l2_repeat_share * l2,
          f.l2_total_share * l2};
}

double predict_waves_us(const BoundRates& rates, const MatmulConfig& c, const SplitK& split, const BlockCycles& x,
                        const WaveWork& w) {
  const ClosedFormConstants& f = rates.f;
  const double loop = w.stages * x.stage;
  const double end = c.roles == Roles::pingpong ? std::max(0.0, x.end - loop) : x.end + f.exposed_end_cycles;
  const double item = (loop + end + (split.splits > 1 ? count_split_cycles(f, c, split) : 0)) / rates.cycles_per_us;
  const double waves = std::floor(w.items / w.concurrent), rest = w.items - waves * w.concurrent;
  double us = 0;
  if (split.split_mode == SplitMode::cluster_split_k)
    us = (std::ceil(w.items / w.concurrent) - 1) * f.next_cluster_cycles / rates.cycles_per_us;
  us += waves * overlap_times(item, w.bytes / w.items * w.concurrent / rates.memory, f.wave_overlap_power);
  if (rest > 0)
    us += overlap_times(item, w.bytes / w.items * rest / std::min(rates.memory, rest * rates.block_memory),
                        f.wave_overlap_power);
  return us;
}
double predict_stream_k_us(const BoundRates& rates, double run_cycles, double bytes) {
  return rates.f.stream_k_cycles / rates.cycles_per_us +
         overlap_times(run_cycles / rates.cycles_per_us, bytes / rates.memory, rates.f.wave_overlap_power);
}
// A copy reads and writes the operand. The fitted bandwidth includes the kernel's reads of the copy, mostly from the
// L2.
double predict_copy_us(const BoundRates& rates, const TileWork& w, const DeviceNumbers& device) {
  return w.copies * rates.f.copy_cycles / rates.cycles_per_us +
         2 * w.copied_bytes / (rates.f.copy_memory_share * 1e-6 * device.memory_bytes_per_s);
}

}  // namespace

BoundKind classify_bound(const TileWork& w, const DeviceNumbers& device) {
  // The rate is that of operands of 16 bits; an instruction multiplies 32 bytes along k in the same time.
  const double k = static_cast<double>(w.size.k) * w.operand_bytes() / OperandType<Bf16>::bytes;
  const double multiplies =
      static_cast<double>(w.batch) * static_cast<double>(w.size.m) * static_cast<double>(w.size.n) * k;
  const double concurrent = device.multiprocessors * kernel_constants().multiply_adds_per_cycle * device.clock_hz;
  if (multiplies / concurrent > w.minimum_bytes / device.memory_bytes_per_s) return BoundKind::multiplies;
  return w.result_bytes > w.minimum_bytes / 2 ? BoundKind::results : BoundKind::bytes;
}

// A cluster must fit in one group of multiprocessors (GPC), and clusters do not always fill a group.
int count_concurrent_clusters(int blocks, int multiprocessors) {
  const HopperRates& n = hopper_rates();
  const double shares[] = {n.cluster1_share, n.cluster2_share, n.cluster3_share, n.cluster4_share,
                           n.cluster5_share, n.cluster6_share, n.cluster7_share, n.cluster8_share};
  const double count = shares[blocks - 1] * multiprocessors / blocks;
  return std::max(1, static_cast<int>(count + 1e-6));
}

double predict_seconds(const MatmulConfig& c, const TileWork& w, const SplitK& split, const DeviceNumbers& device,
                       const ProductModel& model) {
  const BoundKind bound = classify_bound(w, device);
  const ClosedFormConstants& f = select_for_bound(model.constants, bound);
  const BoundRates rates = make_bound_rates(f, device, bound);
  const int sms = device.multiprocessors;
  const double tiles = static_cast<double>(w.batch) * ceil_quotient(static_cast<double>(w.size.m), c.m * c.cluster_m) *
                       ceil_quotient(static_cast<double>(w.size.n), c.n * c.cluster_n) * c.cluster();
  const double stages = ceil_quotient(static_cast<double>(w.size.k), c.k), splits = split.splits,
               items = tiles * splits;
  const bool streamed = split.split_mode == SplitMode::stream_k;
  const int cluster_blocks = split.split_mode == SplitMode::cluster_split_k ? split.splits : c.cluster();
  const double concurrent = streamed ? sms : cluster_blocks * count_concurrent_clusters(cluster_blocks, sms);
  const double blocks = streamed ? sms : std::min(items, concurrent);
  const BlockCycles x = count_block_cycles(f, c, w, count_readers(c, w, std::max(1.0, blocks / c.cluster() / splits)));
  const double each = static_cast<double>(c.m) / c.cluster_n + static_cast<double>(c.n) / c.cluster_m;
  const double requested_bytes = tiles * stages * each * c.k * w.operand_bytes();
  const double unique_bytes =
      w.minimum_bytes + std::max(requested_bytes - w.minimum_bytes, 0.0) * rates.memory / rates.l2_repeat;
  const double bytes = overlap_times(unique_bytes, requested_bytes * rates.memory / rates.l2_total,
                                     f.l2_overlap_power);  // Equivalent memory bytes
  const double run_cycles = ceil_quotient(tiles * stages, sms) * x.stage + 2 * count_split_cycles(f, c, split);
  double us = streamed
                  ? predict_stream_k_us(rates, run_cycles, bytes)
                  : predict_waves_us(rates, c, split, x, {ceil_quotient(stages, splits), items, concurrent, bytes});
  const double busy = std::min(1.0, tiles * stages * x.multiply / sms / rates.cycles_per_us / us);
  us *= 1 + f.power_slowdown * busy * busy * std::clamp((us - 20) / 200, 0.0, 1.0);
  us += (f.launch_cycles + f.first_load_cycles +
         (c.m + c.n) * c.k * w.operand_bytes() / (c.swap ? f.swapped_l2_rate : f.unswapped_l2_rate)) /
        rates.cycles_per_us;
  if (c.cluster() > 1)
    us += (f.cluster_start_cycles + f.cluster_block_cycles * blocks * base::log2(c.cluster())) / rates.cycles_per_us;
  if (c.cluster() == 8 && items > 3 * concurrent) us *= f.cluster8_factor;
  if (c.roles == Roles::pingpong) us += x.end / rates.cycles_per_us;
  us -= std::clamp((sms - blocks) / blocks, 0.0, 1.0) *
        (w.prefetch_constants ? f.prefetch_overlap_cycles : f.launch_overlap_cycles) / rates.cycles_per_us;
  return (us + (w.prefetch_constants ? f.hidden_copy_share : 1) * predict_copy_us(rates, w, device)) * 1e-6;
}

// Few blocks of the kernel for columns fit a multiprocessor, and each waits for its loads in every round.
static double count_gemv_waits(const GemvWork& w, double word, const DeviceNumbers& device) {
  const double resident_threads = w.size.m > 1 ? 512 : 1024;  // Limited by registers
  const GemvColumnThreads threads =
      divide_gemv_threads(w.size, w.batch, static_cast<std::int64_t>(word) / w.operand_bytes, device.multiprocessors);
  const double blocks = static_cast<double>(w.batch) * static_cast<double>(threads.blocks_across);
  const double concurrent = device.multiprocessors * std::floor(resident_threads / threads.count());
  return std::ceil(blocks / concurrent) * std::ceil(static_cast<double>(w.size.k) / (threads.lines * threads.loads));
}

// Returns how often a block of the kernel for lines waits for its loads, or 0 if multiprocessors have several blocks,
// which hide the waits.
static double count_gemv_rounds(const GemvWork& w, int word, const DeviceNumbers& device) {
  const GemvLineWarps divided = divide_gemv_warps(w.size, w.operand_bytes, word);
  if (w.batch * divided.blocks_across > device.multiprocessors) return 0;
  const std::int64_t round_bytes =
      std::int64_t{32} * word * GemvLineWarps::words(w.size.m, w.operand_bytes) * divided.warps;
  return static_cast<double>(ceil_div(w.size.k * w.operand_bytes, round_bytes));
}

double predict_gemv_seconds(const GemvWork& w, const DeviceNumbers& device) {
  const KernelConstants& n = kernel_constants();
  const double rows = static_cast<double>(w.size.m), k = static_cast<double>(w.size.k),
               batch = static_cast<double>(w.batch), columns = static_cast<double>(w.size.n);
  if (w.along_columns) {
    const double word = w.alignment >= 16 ? 16 : std::min(w.alignment, 4);
    const double bytes = w.operand_bytes * batch * (columns * (k + rows) + rows * k);
    return device.launch_s + bytes / device.memory_bytes_per_s +
           count_gemv_waits(w, word, device) * n.gemv_wait_cycles / device.clock_hz;
  }
  const int word = std::min(w.alignment, 4 * w.operand_bytes);
  const double words = std::ceil(k * w.operand_bytes / word);
  const double each = n.gemv_cycles_per_line + words * (1 + rows) * n.gemv_cycles_per_word / 32;
  const double bytes = w.operand_bytes * batch * columns * k;
  const double cycles = std::max(batch * columns * each / device.multiprocessors,
                                 count_gemv_rounds(w, word, device) * n.gemv_wait_cycles);
  return device.launch_s + std::max(cycles / device.clock_hz, bytes / device.memory_bytes_per_s);
}

BlockThroughput block_throughput(const MatmulConfig& c) {
  const ClosedFormConstants& f = select_for_bound(product_model().constants, BoundKind::multiplies);
  const BlockCycles one = count_block_cycles(f, c, {}, {});
  return {.load_bytes_per_cycle = c.swap ? f.swapped_l2_rate : f.unswapped_l2_rate,
          .load_latency = f.first_load_cycles,
          .flops_per_cycle = 2.0 * c.m * c.n * c.k / one.multiply,
          .store_bytes_per_cycle = 64 * swizzle_bytes / f.store_box_cycles,
          .store_latency = f.tile_end_cycles + f.exposed_end_cycles};
}

}  // namespace ridge::ops::cuda
