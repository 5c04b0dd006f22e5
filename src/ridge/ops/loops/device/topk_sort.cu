// Sorting by lines on a device: a block sorts a short line in shared memory. Longer lines are sorted together, by the
// number of their line and then by their elements, in parts of some million elements.
#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "ridge/ops/loops/device/topk.h"

namespace ridge::ops::cuda {
namespace {

// Each block sorts a line of at most threads * items elements. The sort is stable, so that equal elements keep their
// order. Threads have adjacent elements; those after the last get the key 0, which is below all others.
template <int threads, int items> __global__ void __launch_bounds__(threads) sort_line_kernel(const TopKRun run) {
  using Sort = cub::BlockRadixSort<std::uint32_t, threads, items, std::uint16_t>;
  __shared__ typename Sort::TempStorage storage;
  const DeviceOffsets at = offsets_at(run.lines, blockIdx.x);
  std::uint32_t keys[items];
  std::uint16_t indices[items];
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int i = static_cast<int>(threadIdx.x) * items + j;
    keys[j] = i < run.extent ? run.key(at.values + i * run.stride) : 0;
    indices[j] = static_cast<std::uint16_t>(i);
  }
  Sort(storage).SortDescendingBlockedToStriped(keys, indices);
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int rank = static_cast<int>(threadIdx.x) + j * threads;
    if (rank < run.count) run.store(at.result + rank * run.result_stride, at.values, indices[j]);
  }
}

constexpr int threads = 256;

// Lines first_line … first_line + lines - 1, sorted together. A key has the line and, complemented so that the largest
// comes first, the element.
struct SortedLines {
  std::int64_t first_line, lines;
};
__global__ void __launch_bounds__(threads)
    write_line_keys_kernel(const TopKRun run, const SortedLines part, std::uint64_t* keys, std::uint32_t* indices) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= part.lines * run.extent) return;
  const std::int64_t line = divide(at, run.extent), i = at - line * run.extent;
  const std::uint32_t key = run.key(offsets_at(run.lines, part.first_line + line).values + i * run.stride);
  keys[at] = static_cast<std::uint64_t>(line) << 32 | ~key;
  indices[at] = static_cast<std::uint32_t>(i);
}
__global__ void __launch_bounds__(threads)
    store_indices_kernel(const TopKRun run, const SortedLines part, const std::uint32_t* indices) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= part.lines * run.count) return;
  const std::int64_t line = divide(at, run.count), rank = at - line * run.count;
  const DeviceOffsets of_line = offsets_at(run.lines, part.first_line + line);
  run.store(of_line.result + rank * run.result_stride, of_line.values, indices[line * run.extent + rank]);
}

struct LineSortBuffers {
  cub::DoubleBuffer<std::uint64_t> keys;
  cub::DoubleBuffer<std::uint32_t> indices;
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0, bytes = 0;
};
cudaError_t sort_keys(LineSortBuffers& buffers, std::int64_t lines, std::int64_t extent, cudaStream_t stream) {
  const int end_bit = 32 + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(lines - 1)));
  return cub::DeviceRadixSort::SortPairs(buffers.scratch, buffers.scratch_bytes, buffers.keys, buffers.indices,
                                         static_cast<int>(lines * extent), 0, end_bit, stream);
}
LineSortBuffers make_buffers(std::int64_t lines, std::int64_t extent, void* workspace) {
  LineSortBuffers out;
  const std::size_t count = static_cast<std::size_t>(lines * extent);
  std::size_t at = device::counter_bytes;
  const auto place = [&](std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    void* const begin = static_cast<char*>(workspace) + at;
    at += (bytes + alignment - 1) / alignment * alignment;
    return begin;
  };
  for (std::uint64_t*& keys : out.keys.d_buffers) keys = static_cast<std::uint64_t*>(place(count * sizeof *keys));
  for (std::uint32_t*& indices : out.indices.d_buffers)
    indices = static_cast<std::uint32_t*>(place(count * sizeof *indices));
  if (sort_keys(out, lines, extent, nullptr) != cudaSuccess) cudaGetLastError();  // Only counts the scratch
  out.scratch = place(out.scratch_bytes);
  out.bytes = at;
  return out;
}

// Returns how many lines are sorted together.
std::int64_t lines_per_sort(const TopKLoops& l) {
  constexpr std::int64_t elements_per_sort = std::int64_t{1} << 25;
  return std::clamp<std::int64_t>(elements_per_sort / l.axis.extent, 1,
                                  std::max<std::int64_t>(count_points(l.axes), 1));
}

Status sort_together(const TopKLoops& l, const TopKRun& run, const device::DeviceWorkspace& workspace,
                     cudaStream_t stream) {
  const std::int64_t each = lines_per_sort(l);
  for (SortedLines part{0, each}; part.first_line < run.lines.points; part.first_line += each) {
    part.lines = std::min(each, run.lines.points - part.first_line);
    LineSortBuffers buffers = make_buffers(part.lines, run.extent, workspace.data);
    write_line_keys_kernel<<<blocks_for(part.lines * run.extent, threads), threads, 0, stream>>>(
        run, part, buffers.keys.Current(), buffers.indices.Current());
    RIDGE_TRY_STATUS(device::to_status(sort_keys(buffers, part.lines, run.extent, stream), "sorting lines"));
    store_indices_kernel<<<blocks_for(part.lines * run.count, threads), threads, 0, stream>>>(
        run, part, buffers.indices.Current());
  }
  return device::to_status(cudaGetLastError(), "sorting lines");
}

}  // namespace

std::size_t sort_workspace_bytes(const TopKLoops& l) {
  return l.axis.extent <= max_block_line ? 0 : make_buffers(lines_per_sort(l), l.axis.extent, nullptr).bytes;
}

Status sort_lines(const TopKLoops& l, const TopKRun& run, const device::DeviceWorkspace& workspace,
                  CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(run.lines.points);
  if (run.extent > max_block_line) return sort_together(l, run, workspace, stream);
  if (run.extent <= 1024)
    sort_line_kernel<128, 8><<<blocks, 128, 0, stream>>>(run);
  else
    sort_line_kernel<512, 16><<<blocks, 512, 0, stream>>>(run);
  return device::to_status(cudaGetLastError(), "sorting lines");
}

}  // namespace ridge::ops::cuda
