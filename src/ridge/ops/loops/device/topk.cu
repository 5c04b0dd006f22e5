// Top-k and sorting by lines on a device. All kernels order the same keys: an element's ordered float and, below it,
// its index, so that no two keys are equal and every method gives the same result. A warp selects a few elements of
// short lines. A block selects from long lines, which may be divided among blocks whose selections a second launch
// merges. Otherwise lines are sorted: short ones by a block each, long ones together (topk_sort.cu).
#include "ridge/ops/loops/device/topk.h"

namespace ridge::ops::cuda {
namespace {

constexpr int warp_threads = 128, select_threads = 512;
constexpr int digit_bits = 8, buckets = 1 << digit_bits;

// Each warp selects from a line of at most 32 * items elements: `count` times the largest key that is left.
template <int items> __global__ void __launch_bounds__(warp_threads) select_in_warp_kernel(const TopKRun run) {
  device::start_after_earlier_kernels();
  const std::int64_t line = (std::int64_t{blockIdx.x} * warp_threads + threadIdx.x) / 32;
  if (line >= run.lines.points) return;
  const int lane = static_cast<int>(threadIdx.x % 32), extent = static_cast<int>(run.extent);
  const DeviceOffsets at = offsets_at(run.lines, line);
  std::uint32_t keys[items];  // 0, which is below every key, if there is no such element
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int i = lane + 32 * j;
    keys[j] = i < extent ? run.key(at.values + i * run.stride) : 0;
  }
  int mine = 0;
  for (int rank = 0; rank < run.count; ++rank) {
    std::uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < items; ++j) largest = keys[j] > largest ? keys[j] : largest;
    largest = __reduce_max_sync(~0u, largest);
    int first = 32 * items;
#pragma unroll
    for (int j = items - 1; j >= 0; --j)
      if (keys[j] == largest) first = lane + 32 * j;
    first = __reduce_min_sync(~0u, first);
#pragma unroll
    for (int j = 0; j < items; ++j)
      if (first == lane + 32 * j) keys[j] = 0;
    if (lane == rank) mine = first;
  }
  if (lane < run.count) run.store(at.result + lane * run.result_stride, at.values, mine);
}

// The lines that select_in_block_kernel reads: floats, or the keys that an earlier launch selected. Each line is
// divided into `parts`.
struct SelectSource {
  const std::uint64_t* keys;  // A null pointer means that the floats are the source
  std::int64_t extent, parts, part_extent;
};

constexpr int keys_at_once = 4;  // Keys whose loads are in flight together

struct LinePart {
  const TopKRun& run;
  const SelectSource& source;
  std::int64_t line, offset, begin, end;
  __device__ std::uint64_t key(std::int64_t i) const {
    if (source.keys != nullptr) return source.keys[line * source.extent + i];
    return ranked_key(run.key(offset + i * run.stride), i);
  }
  // Calls use(key) for the keys of this thread.
  template <class Use> __device__ void visit_keys(const Use& use) const {
    for (std::int64_t first = begin + threadIdx.x; first < end; first += keys_at_once * select_threads) {
      std::uint64_t keys[keys_at_once];
#pragma unroll
      for (int u = 0; u < keys_at_once; ++u)
        keys[u] = first + u * select_threads < end ? key(first + u * select_threads) : 0;
#pragma unroll
      for (int u = 0; u < keys_at_once; ++u)
        if (first + u * select_threads < end) use(keys[u]);
    }
  }
};

// A digit such that the keys with larger digits are fewer than needed, and with those that have this digit enough.
struct DigitChoice {
  int digit, larger, equal;
};
__device__ DigitChoice choose_digit(const int* counts, int needed) {
  __shared__ DigitChoice choice;
  constexpr int each = buckets / 32;
  if (threadIdx.x < 32) {  // Lane 0 has the largest digits.
    const int lane = static_cast<int>(threadIdx.x), last = buckets - 1 - lane * each;
    int sum = 0;
    for (int i = 0; i < each; ++i) sum += counts[last - i];
    int larger = sum;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int earlier = __shfl_up_sync(~0u, larger, distance);
      if (lane >= distance) larger += earlier;
    }
    larger -= sum;
    if (larger < needed && larger + sum >= needed) {
      int digit = last;
      while (larger + counts[digit] < needed) larger += counts[digit--];
      choice = {digit, larger, counts[digit]};
    }
  }
  __syncthreads();
  return choice;
}

// Returns a key that at least `needed` and at most `max_collected_keys` keys of the part reach.
__device__ std::uint64_t find_limit(const LinePart& part, int needed) {
  __shared__ int counts[buckets];
  std::uint64_t prefix = 0;
  int shift = 64, larger = 0;
  for (bool is_done = part.end - part.begin <= max_collected_keys; !is_done;) {
    shift -= digit_bits;
    __syncthreads();  // All threads have read the previous choice.
    for (int b = static_cast<int>(threadIdx.x); b < buckets; b += select_threads) counts[b] = 0;
    __syncthreads();
    const int above = shift + digit_bits;
    part.visit_keys([&](std::uint64_t key) {
      if (above == 64 || key >> above == prefix) atomicAdd(&counts[key >> shift & (buckets - 1)], 1);
    });
    __syncthreads();
    const DigitChoice found = choose_digit(counts, needed - larger);
    prefix = prefix << digit_bits | static_cast<unsigned>(found.digit);
    is_done = larger + found.larger + found.equal <= max_collected_keys || shift == 0;
    larger += found.larger;
  }
  return shift == 64 ? 0 : prefix << shift;
}

// Sorts the first `count` keys from the largest; the rest up to a power of two become 0.
__device__ void sort_keys(std::uint64_t* keys, int count) {
  int size = 1;
  while (size < count) size *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += select_threads) keys[i] = 0;
  for (int length = 2; length <= size; length *= 2)
    for (int distance = length / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < size / 2; pair += select_threads) {
        const int i = 2 * pair - (pair & (distance - 1)), j = i + distance;
        const bool descends = (i & length) == 0;
        const std::uint64_t a = keys[i], b = keys[j];
        if ((a < b) == descends) {
          keys[i] = b;
          keys[j] = a;
        }
      }
    }
  __syncthreads();
}

// Each block selects the `count` largest keys of a part of a line: it collects those that reach a limit, and sorts
// them. The results are indices, or keys in `selected` if that is not null; a key is 0 if the part has too few.
__global__ void __launch_bounds__(select_threads)
    select_in_block_kernel(const TopKRun run, const SelectSource source, std::uint64_t* selected) {
  device::start_after_earlier_kernels();
  __shared__ std::uint64_t keys[max_collected_keys];
  __shared__ int collected;
  const std::int64_t line = blockIdx.x / source.parts, begin = (blockIdx.x - line * source.parts) * source.part_extent,
                     stop = begin + source.part_extent;
  const DeviceOffsets at = offsets_at(run.lines, line);
  const LinePart part{run, source, line, at.values, begin, stop < source.extent ? stop : source.extent};
  const int count = static_cast<int>(part.end - begin < run.count ? part.end - begin : run.count);
  if (threadIdx.x == 0) collected = 0;
  __syncthreads();
  const std::uint64_t limit = find_limit(part, count);
  part.visit_keys([&](std::uint64_t key) {
    if (key >= limit) keys[atomicAdd(&collected, 1)] = key;
  });
  __syncthreads();
  sort_keys(keys, collected);
  for (int rank = static_cast<int>(threadIdx.x); rank < run.count; rank += select_threads) {
    if (selected != nullptr)
      selected[std::int64_t{blockIdx.x} * run.count + rank] = rank < count ? keys[rank] : 0;
    else
      run.store(at.result + rank * run.result_stride, at.values, index_of(keys[rank]));
  }
}

enum class TopKMethod { warp, select, sort };
struct TopKPlan {
  TopKMethod method = TopKMethod::sort;
  std::vector<LoopAxis> axes;
  std::int64_t lines = 1, parts = 1;  // Parts of a line, each of which a block selects from
};
TopKPlan plan_topk(const TopKLoops& l) {
  constexpr std::int64_t max_warp_line = 512;
  TopKPlan out{.axes = merge_loop_axes(l.axes)};
  out.lines = count_points(out.axes);
  const std::int64_t n = l.axis.extent;
  if (n <= max_warp_line && l.count <= 32) out.method = TopKMethod::warp;
  if (out.method == TopKMethod::sort && l.count <= max_selected && min_selection_ratio * l.count <= n) {
    out.method = TopKMethod::select;
    out.parts = count_selection_parts(out.lines, n, l.count, device::multiprocessor_count());
  }
  return out;
}

cudaError_t select_in_warps(const TopKRun& run, cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    const device::LaunchShape shape{.blocks = blocks_for(run.lines.points, warp_threads / 32), .threads = warp_threads};
    return device::launch_dependent(kernel, shape, stream, run);
  };
  if (run.extent <= 32) return launch(select_in_warp_kernel<1>);
  if (run.extent <= 128) return launch(select_in_warp_kernel<4>);
  return launch(select_in_warp_kernel<16>);
}

cudaError_t select_in_blocks(const TopKPlan& plan, const TopKRun& run, const device::DeviceWorkspace& workspace,
                             cudaStream_t stream) {
  const auto launch = [&](const SelectSource& source, std::uint64_t* selected) {
    const device::LaunchShape shape{.blocks = plan.lines * source.parts, .threads = select_threads};
    return device::launch_dependent(select_in_block_kernel, shape, stream, run, source, selected);
  };
  if (plan.parts == 1) return launch({nullptr, run.extent, 1, run.extent}, nullptr);
  auto* const selected = reinterpret_cast<std::uint64_t*>(static_cast<char*>(workspace.data) + device::counter_bytes);
  const cudaError_t error =
      launch({nullptr, run.extent, plan.parts, (run.extent + plan.parts - 1) / plan.parts}, selected);
  const std::int64_t merged = plan.parts * run.count;
  return error != cudaSuccess ? error : launch({selected, merged, 1, merged}, nullptr);
}

}  // namespace

std::size_t workspace_bytes(const TopKLoops& l) {
  const TopKPlan plan = plan_topk(l);
  if (plan.method == TopKMethod::sort) return sort_workspace_bytes(l);
  if (plan.parts == 1) return 0;
  return device::counter_bytes + static_cast<std::size_t>(plan.lines * plan.parts * l.count) * sizeof(std::uint64_t);
}

Status run_loops(const TopKLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream) {
  const TopKPlan plan = plan_topk(l);
  if (plan.lines * l.count == 0) return Done{};
  RIDGE_TRY_STATUS(device::check_workspace(workspace, workspace_bytes(l)));
  const TopKRun run{.lines = make_device_axes(plan.axes),
                    .values = {data[0], l.values},
                    .result = data[1],
                    .result_dtype = l.result,
                    .ascending = l.ascending,
                    .extent = l.axis.extent,
                    .stride = l.axis.values,
                    .result_stride = l.result_stride,
                    .count = static_cast<int>(l.count)};
  if (plan.method == TopKMethod::sort) return sort_lines(l, run, workspace, stream);
  return device::to_status(
      plan.method == TopKMethod::warp ? select_in_warps(run, stream) : select_in_blocks(plan, run, workspace, stream),
      "launching top-k");
}

}  // namespace ridge::ops::cuda
