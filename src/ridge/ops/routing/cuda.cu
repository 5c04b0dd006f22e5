// Three kernels: one counts the rows that each group keeps; one assigns a row to each index, with one block per group,
// so that rows keep the order of their indices without atomics; one moves the rows, 16 bytes per thread if aligned.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/ops/routing/cuda.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 1024, warps = threads / 32, indices_per_thread = 16;  // Indices per thread and iteration

struct Indices {
  const void* data;
  bool are_bytes;
  std::int64_t count;
  __device__ int operator()(std::int64_t i) const {
    return are_bytes ? static_cast<const std::int8_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

__device__ int sum_over_block(int mine) {
  __shared__ int warp_counts[warps];
  mine = __reduce_add_sync(~0u, mine);
  __syncthreads();  // All threads have read the previous sums
  if (threadIdx.x % 32 == 0) warp_counts[threadIdx.x / 32] = mine;
  __syncthreads();
  int sum = 0;
  for (const int each : warp_counts) sum += each;
  return sum;
}

// Writes the number of rows that group g keeps to kept[g]; one block per group.
__global__ void __launch_bounds__(threads) count_rows_kernel(Indices indices, int groups, int capacity, int* kept) {
  device::start_after_earlier_kernels();
  for (int g = static_cast<int>(blockIdx.x); g < groups; g += static_cast<int>(gridDim.x)) {
    int mine = 0;
#pragma unroll 8
    for (std::int64_t i = threadIdx.x; i < indices.count; i += threads) mine += indices(i) == g;
    const int all = sum_over_block(mine);
    if (threadIdx.x == 0) kept[g] = capacity > 0 && all > capacity ? capacity : all;
  }
}

// Returns the sum of `mine` over the earlier warps of the block, and over all. `mine` is the same in all lanes of a
// warp.
struct PrefixCount {
  int earlier, total;
};
__device__ PrefixCount count_in_earlier_warps(int mine) {
  __shared__ int warp_counts[warps];
  __syncthreads();  // All threads have read the previous counts
  if (threadIdx.x % 32 == 0) warp_counts[threadIdx.x / 32] = mine;
  __syncthreads();
  PrefixCount out{0, 0};
  for (int w = 0; w < warps; ++w) {
    if (w < static_cast<int>(threadIdx.x / 32)) out.earlier += warp_counts[w];
    out.total += warp_counts[w];
  }
  return out;
}

// Writes the start of group g and the row of each index of g; the first block also marks indices without a group as -1.
__global__ void __launch_bounds__(threads)
    assign_rows_kernel(Indices indices, int groups, int* starts, int* rows, const int* kept) {
  device::start_after_earlier_kernels();
  for (int g = static_cast<int>(blockIdx.x); g < groups; g += static_cast<int>(gridDim.x)) {
    int mine = 0;
    for (int before = static_cast<int>(threadIdx.x); before < g; before += threads) mine += kept[before];
    const int begin = sum_over_block(mine), end = begin + kept[g];
    if (threadIdx.x == 0) {
      starts[g] = begin;
      if (g + 1 == groups) starts[groups] = end;
    }
    int next = begin;  // Next free row, the same in all threads
    for (std::int64_t first = 0; first < indices.count; first += threads * indices_per_thread) {
      const unsigned lane = threadIdx.x % 32;
      const std::int64_t from =
          first + threadIdx.x / 32 * (32 * indices_per_thread) + lane;  // A warp reads consecutive indices
      int index[indices_per_thread];  // All loads are issued before the first value is used
#pragma unroll
      for (int j = 0; j < indices_per_thread; ++j)
        index[j] = from + j * 32 < indices.count ? indices(from + j * 32) : 0;
      unsigned matches[indices_per_thread];  // A bit for each of 32 indices that equal g
      int found = 0;
#pragma unroll
      for (int j = 0; j < indices_per_thread; ++j) {
        const bool in_range = from + j * 32 < indices.count;
        matches[j] = __ballot_sync(~0u, in_range && index[j] == g);
        found += __popc(matches[j]);
        if (g == 0 && in_range && (index[j] < 0 || index[j] >= groups)) rows[from + j * 32] = -1;
      }
      const PrefixCount before = count_in_earlier_warps(found);
      int row = next + before.earlier;
#pragma unroll
      for (int j = 0; j < indices_per_thread; ++j) {
        const int assigned_row = row + __popc(matches[j] & ((1u << lane) - 1));
        if (matches[j] >> lane & 1) rows[from + j * 32] = assigned_row < end ? assigned_row : -1;
        row += __popc(matches[j]);
      }
      next += before.total;
    }
  }
}

constexpr int move_threads = 256, move_warps = move_threads / 32;
// One warp per index i. Copies row i / indices_per_row to the sorted row of i, or with `restores_order` the sorted row
// of i, or zeros if it has none, to row i.
template <class Word, bool restores_order> __global__ void __launch_bounds__(move_threads)
    move_kernel(const Word* from, Word* to, const int* rows, std::int64_t count, std::int64_t indices_per_row,
                std::int64_t words) {
  device::start_after_earlier_kernels();
  const std::int64_t step = std::int64_t{gridDim.x} * move_warps;
  for (std::int64_t i = std::int64_t{blockIdx.x} * move_warps + threadIdx.x / 32; i < count; i += step) {
    const std::int64_t row = rows[i];
    if (!restores_order && row < 0) continue;
    const Word* const source = from + (restores_order ? row : i / indices_per_row) * words;
    Word* const target = to + (restores_order ? i : row) * words;
    for (std::int64_t w = threadIdx.x % 32; w < words; w += 32) target[w] = row < 0 ? Word{} : source[w];
  }
}

template <class Word> void move_words(const RoutingProblem& r, const char* from, char* to, const int* rows,
                                      std::int64_t words, cudaStream_t stream) {
  const device::LaunchShape shape{.blocks = std::min<std::int64_t>((r.index_count + move_warps - 1) / move_warps,
                                                                   8 * device::multiprocessor_count()),
                                  .threads = move_threads};
  device::launch_dependent(r.restores_order ? move_kernel<Word, true> : move_kernel<Word, false>, shape, stream,
                           reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to), rows, r.index_count,
                           r.indices_per_row, words);
}
void move_rows(const RoutingProblem& r, const char* from, char* to, const int* rows, std::int64_t row_bytes,
               cudaStream_t stream) {
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                                static_cast<std::uintptr_t>(row_bytes);
  if (r.index_count == 0 || row_bytes == 0) return;
  if (places % 16 == 0)
    move_words<uint4>(r, from, to, rows, row_bytes / 16, stream);
  else if (places % 4 == 0)
    move_words<std::uint32_t>(r, from, to, rows, row_bytes / 4, stream);
  else if (places % 2 == 0)
    move_words<std::uint16_t>(r, from, to, rows, row_bytes / 2, stream);
  else
    move_words<std::uint8_t>(r, from, to, rows, row_bytes, stream);
}

}  // namespace

Status route_rows(const RoutingProblem& r, std::span<void* const> data, CUstream_st* stream) {
  const auto groups = static_cast<int>(r.groups);
  if (!r.restores_order) {
    int* const starts = static_cast<int*>(data[2]);
    int* const rows = starts + groups + 1;
    int* const kept = rows + r.index_count;
    const Indices indices{data[0], r.indices == DType::int8, r.index_count};
    const auto capacity = static_cast<int>(std::min<std::int64_t>(r.capacity, r.index_count));
    const device::LaunchShape shape{.blocks = std::min(groups, 65535), .threads = threads};
    device::launch_dependent(count_rows_kernel, shape, stream, indices, groups, capacity, kept);
    device::launch_dependent(assign_rows_kernel, shape, stream, indices, groups, starts, rows, kept);
  }
  const int* const rows = static_cast<const int*>(data[r.restores_order ? 0 : 2]) + groups + 1;
  const auto* const from = static_cast<const char*>(data[1]);
  auto* const to = static_cast<char*>(data[r.restores_order ? 2 : 3]);
  const std::int64_t element_bytes = r.width * dtype_bits(r.values) / 8;
  move_rows(r, from, to, rows, element_bytes, stream);
  // Scales are a plane of their own; only sorted rows have any
  if (const std::int64_t scale_bytes = stored_bytes(r.values, r.width) - element_bytes; scale_bytes > 0)
    move_rows(r, from + r.index_count / r.indices_per_row * element_bytes, to + r.sorted_rows() * element_bytes, rows,
              scale_bytes, stream);
  return device::to_status(cudaGetLastError(), "routing rows");
}

}  // namespace ridge::ops::cuda
