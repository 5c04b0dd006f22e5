// Running sums on a device, in f64 as on a CPU. Lines whose elements are contiguous are summed by a team of threads, a
// tile at a time; of other lines each thread sums a part. If the lines do not fill the device, they are split: a first
// kernel sums the splits, and each split then begins with the sum of those before it. No order of additions depends on
// the timing of threads.
#include <span>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"
#include "ridge/ops/loops/running_sum_plan.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = running_sum_threads, warps = threads / 32;
constexpr int steps_at_once = 8;  // Steps whose loads are in flight together

struct SumRun {
  DeviceLoopAxes lines;
  const void* from;
  void* to;
  std::int64_t extent, from_stride, to_stride;  // Extent and strides of the axis that is summed
  std::int64_t splits, split_extent;
  double* totals;  // Sums of the splits of each line; null if there is one split
};
struct SplitLine {
  std::int64_t line, split, begin, end;
};
__device__ SplitLine split_line(const SumRun& run, std::int64_t item) {
  const std::int64_t line = divide(item, run.splits), split = item - line * run.splits,
                     begin = split * run.split_extent, end = begin + run.split_extent;
  return {line, split, begin, end < run.extent ? end : run.extent};
}

__device__ double add_over_warp(double x) {
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(~0u, x, other);
  return x;
}
// Returns the sum of `mine` over the block's threads. All threads must call it.
__device__ double add_over_block(double mine) {
  __shared__ double sums[warps];
  mine = add_over_warp(mine);
  __syncthreads();  // All threads have read the previous sums.
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
  __syncthreads();
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}
// Returns the sum of the line's splits before this one.
__device__ double sum_before(const SumRun& run, const SplitLine& at) {
  if (run.totals == nullptr) return 0;
  double mine = 0;
  for (std::int64_t s = threadIdx.x; s < at.split; s += threads) mine += run.totals[at.line * run.splits + s];
  return add_over_block(mine);
}

// Returns the sum of `mine` over the lanes before this one; `total` becomes that over all lanes.
__device__ double add_earlier_lanes(double mine, double& total) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  double all = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double earlier = __shfl_up_sync(~0u, all, distance);
    if (lane >= distance) all += earlier;
  }
  total = __shfl_sync(~0u, all, 31);
  const double before = __shfl_up_sync(~0u, all, 1);
  return lane == 0 ? 0 : before;
}

// Part of a line that a team of threads sums together: `pieces` pieces in which each thread has W adjacent elements.
template <NumberFormat from, NumberFormat to, int W> struct Tile {
  static constexpr int pieces = W == 8 ? 2 : 4;
  Pack<from, W> x[pieces];
  double before[pieces], totals[pieces];  // Sums of the warp's earlier lanes, and of the warp

  __device__ void load(const char* data, std::int64_t first, std::int64_t end, int team) {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      const std::int64_t i = first + p * team * W;
      x[p] = tile::cuda::read<from, W, W, CachePolicy::cached>(data, i, i < end);
    }
  }
  __device__ double sum_piece(int p) const {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += static_cast<double>(x[p][i]);
    return sum;
  }
  __device__ void scan_warp() {
#pragma unroll
    for (int p = 0; p < pieces; ++p) before[p] = add_earlier_lanes(sum_piece(p), totals[p]);
  }
  __device__ void store(char* data, std::int64_t first, std::int64_t end, int team,
                        const double (&bases)[pieces]) const {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      double sum = 0;
      float y[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        sum += static_cast<double>(x[p][i]);
        y[i] = static_cast<float>(bases[p] + (before[p] + sum));
      }
      const std::int64_t i = first + p * team * W;
      if (i < end) tile::cuda::write<to, W, W, CachePolicy::cached>(data, i, y);
    }
  }
};

// Adds the totals of earlier pieces and warps of the block: bases[p] becomes the sum before this warp's piece p, and
// `carry` grows by the tile's sum.
template <int pieces>
__device__ void add_earlier_warps(const double (&totals)[pieces], double& carry, double (&bases)[pieces]) {
  __shared__ double sums[pieces][warps];
  const int warp = static_cast<int>(threadIdx.x / 32);
  __syncthreads();  // All threads have read the previous sums.
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int p = 0; p < pieces; ++p) sums[p][warp] = totals[p];
  __syncthreads();
#pragma unroll
  for (int p = 0; p < pieces; ++p) {
    double piece = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      if (w == warp) bases[p] = carry + piece;
      piece += sums[p][w];
    }
    carry += piece;
  }
}

// A warp or a block sums one split of a line with contiguous elements.
template <NumberFormat from, NumberFormat to, int W, int team> __global__ void __launch_bounds__(threads)
    sum_along_kernel(const SumRun run) {
  using LineTile = Tile<from, to, W>;
  constexpr int pieces = LineTile::pieces;
  const std::int64_t item = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / team;
  if (item >= run.lines.points * run.splits) return;
  const SplitLine part = split_line(run, item);
  const DeviceOffsets at = offsets_at(run.lines, part.line);
  const char* const x = static_cast<const char*>(run.from) + at.values * tile::cuda::size_of<from>;
  char* const y = static_cast<char*>(run.to) + at.result * tile::cuda::size_of<to>;
  double carry = team == threads ? sum_before(run, part) : 0;
  for (std::int64_t first = part.begin; first < part.end; first += team * W * pieces) {
    const std::int64_t mine = first + threadIdx.x % team * W;
    LineTile tile;
    tile.load(x, mine, part.end, team);
    tile.scan_warp();
    double bases[pieces];
    if constexpr (team == threads) {
      add_earlier_warps(tile.totals, carry, bases);
    } else {
#pragma unroll
      for (int p = 0; p < pieces; ++p) {
        bases[p] = carry;
        carry += tile.totals[p];
      }
    }
    tile.store(y, mine, part.end, team, bases);
  }
}
// A block sums one split of a line with contiguous elements and stores only its total.
template <NumberFormat from, int W> __global__ void __launch_bounds__(threads) total_along_kernel(const SumRun run) {
  const SplitLine part = split_line(run, blockIdx.x);
  const char* const x =
      static_cast<const char*>(run.from) + offsets_at(run.lines, part.line).values * tile::cuda::size_of<from>;
  double sum = 0;
  constexpr int team = threads;
  using LineTile = Tile<from, from, W>;
  for (std::int64_t first = part.begin; first < part.end; first += team * W * LineTile::pieces) {
    LineTile tile;
    tile.load(x, first + threadIdx.x * W, part.end, team);
#pragma unroll
    for (int p = 0; p < LineTile::pieces; ++p) sum += tile.sum_piece(p);
  }
  sum = add_over_block(sum);
  if (threadIdx.x == 0) run.totals[blockIdx.x] = sum;
}

__device__ double to_f64(float x) { return static_cast<double>(x); }
template <class T> __device__ double to_f64(T x) {
  if constexpr (std::is_same_v<T, F16>)
    return static_cast<double>(widen(x));
  else
    return to_double(x);
}

// Calls use(i, x) for the elements x of a part of a line, several of which are loaded together.
template <class From, class Use> __device__ void visit_elements(const From* x, std::int64_t stride, std::int64_t begin,
                                                                std::int64_t end, const Use& use) {
  for (std::int64_t first = begin; first < end; first += steps_at_once) {
    From loaded[steps_at_once];
#pragma unroll
    for (int u = 0; u < steps_at_once; ++u) loaded[u] = first + u < end ? x[(first + u) * stride] : From{};
#pragma unroll
    for (int u = 0; u < steps_at_once; ++u)
      if (first + u < end) use(first + u, to_f64(loaded[u]));
  }
}

// A block has `lanes` adjacent lines, and threads / lanes threads for each, which divide a split of it. If `stores` is
// false, only the split's total is stored.
template <class From, class To, bool stores> __global__ void __launch_bounds__(threads)
    sum_across_kernel(const SumRun run, int lanes) {
  __shared__ double sums[threads];
  const int lane = static_cast<int>(threadIdx.x) % lanes, part = static_cast<int>(threadIdx.x) / lanes,
            parts = threads / lanes;
  const std::int64_t line = std::int64_t{blockIdx.x} * lanes + lane, split = blockIdx.y;
  const bool exists = line < run.lines.points;
  const DeviceOffsets at = offsets_at(run.lines, exists ? line : 0);
  const auto* const x = static_cast<const From*>(run.from) + at.values;
  const std::int64_t first = split * run.split_extent, last = min(first + run.split_extent, run.extent);
  const std::int64_t each = (last - first + parts - 1) / parts;
  const std::int64_t begin = min(first + part * each, last), end = exists ? min(begin + each, last) : begin;
  double sum = 0;
  if (parts > 1 || !stores) {
    visit_elements(x, run.from_stride, begin, end, [&](std::int64_t, double value) { sum += value; });
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (int p = 0; p < (stores ? part : parts); ++p) sum += sums[p * lanes + lane];
  }
  if constexpr (stores) {
    if (!exists) return;
    double earlier = 0;
    for (std::int64_t s = 0; run.totals != nullptr && s < split; ++s) earlier += run.totals[line * run.splits + s];
    sum += earlier;
    auto* const y = static_cast<To*>(run.to) + at.result;
    visit_elements(x, run.from_stride, begin, end, [&](std::int64_t i, double value) {
      sum += value;
      y[i * run.to_stride] = narrow<To>(static_cast<float>(sum));
    });
  } else if (exists && part == 0) {
    run.totals[line * run.splits + split] = sum;
  }
}

// Returns the elements that one access covers: several if all lines are aligned.
int find_line_width(const RunningSumLoops& l, const RunningSumPlan& plan, const void* from, const void* to) {
  const std::int64_t from_bytes = dtype_bits(l.values) / 8, to_bytes = dtype_bits(l.result) / 8;
  std::vector<std::int64_t> from_distances{l.axis.extent * from_bytes}, to_distances{l.axis.extent * to_bytes};
  for (const LoopAxis& axis : plan.axes) {
    from_distances.push_back(axis.values * from_bytes);
    to_distances.push_back(axis.result * to_bytes);
  }
  return static_cast<int>(
      std::min(widest_word({from}, from_distances) / from_bytes, widest_word({to}, to_distances) / to_bytes));
}

template <NumberFormat from, NumberFormat to, int W>
void sum_along(const RunningSumPlan& plan, const SumRun& run, cudaStream_t stream) {
  const std::int64_t items = plan.lines * plan.splits;
  if (plan.splits > 1) total_along_kernel<from, W><<<static_cast<unsigned>(items), threads, 0, stream>>>(run);
  (plan.team == threads
       ? sum_along_kernel<from, to, W, threads>
       : sum_along_kernel<from, to, W, 32>)<<<blocks_for(items * plan.team, threads), threads, 0, stream>>>(run);
}
void sum_along(const RunningSumLoops& l, const RunningSumPlan& plan, const SumRun& run, cudaStream_t stream) {
  const int width = find_line_width(l, plan, run.from, run.to);
  with_format(l.values, [&]<NumberFormat from>() {
    with_format(l.result, [&]<NumberFormat to>() {
      constexpr int wide = 16 / std::max(tile::cuda::size_of<from>, tile::cuda::size_of<to>);
      width >= wide ? sum_along<from, to, wide>(plan, run, stream) : sum_along<from, to, 1>(plan, run, stream);
    });
  });
}
void sum_across(const RunningSumLoops& l, const RunningSumPlan& plan, const SumRun& run, cudaStream_t stream) {
  const dim3 blocks(blocks_for(plan.lines, plan.team), static_cast<unsigned>(plan.splits));
  StorageDTypes::dispatch(l.values, [&]<class From>() {
    if (plan.splits > 1) sum_across_kernel<From, float, false><<<blocks, threads, 0, stream>>>(run, plan.team);
    StoredFloats::dispatch(l.result, [&]<class To>() {
      sum_across_kernel<From, To, true><<<blocks, threads, 0, stream>>>(run, plan.team);
    });
    if constexpr (std::is_same_v<From, std::int8_t>)  // A copy in another order, for products
      if (l.result == DType::int8)
        sum_across_kernel<From, std::int8_t, true><<<blocks, threads, 0, stream>>>(run, plan.team);
  });
}

}  // namespace

std::size_t workspace_bytes(const RunningSumLoops& l) {
  const RunningSumPlan plan = plan_running_sum(l, device::multiprocessor_count());
  return plan.splits == 1 ? 0
                          : device::counter_bytes + static_cast<std::size_t>(plan.lines * plan.splits) * sizeof(double);
}

Status run_loops(const RunningSumLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream) {
  const RunningSumPlan plan = plan_running_sum(l, device::multiprocessor_count());
  if (plan.lines * l.axis.extent == 0) return Done{};
  RIDGE_TRY_STATUS(device::check_workspace(workspace, workspace_bytes(l)));
  const SumRun run{.lines = make_device_axes(plan.axes),
                   .from = data[0],
                   .to = data[1],
                   .extent = l.axis.extent,
                   .from_stride = l.axis.values,
                   .to_stride = l.axis.result,
                   .splits = plan.splits,
                   .split_extent = plan.split_extent,
                   .totals = plan.splits == 1 ? nullptr
                                              : reinterpret_cast<double*>(static_cast<char*>(workspace.data) +
                                                                          device::counter_bytes)};
  plan.is_along ? sum_along(l, plan, run, stream) : sum_across(l, plan, run, stream);
  return device::to_status(cudaGetLastError(), "launching running sums");
}

}  // namespace ridge::ops::cuda
