// Gathers on a device. Elements that are copied as they are move in words: as wide as the rows allow, up to 16 bytes.
// Others are converted. A thread moves several items together, so that its loads are in flight together. A warp copies
// parts of wide rows, whose index and addresses it finds once.
#include "ridge/ops/loops/device/indexed.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, warp_threads = 32, items_per_thread = 4, converted_width = 4;
static_assert(gathered_part_words == warp_threads * items_per_thread);

// Strides and the length of a row count words, or elements if these are converted.
struct GatherLaunch {
  DeviceLoopAxes rows;
  DeviceIndices indices;
  const void* values;
  void* result;
  std::int64_t index_extent, index_stride, words, items;
};

struct GatherItem {
  std::int64_t from = 0, to = -1;  // `to` is negative if there is no such item.
  bool exists = false;             // False if the index is out of range.
};
// Finds the items of a thread, each of `width` words.
__device__ void find_items(const GatherLaunch& run, int width, GatherItem (&out)[items_per_thread]) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (threads * items_per_thread) + threadIdx.x;
  const std::int64_t items_per_row = run.words / width;
  std::int64_t index[items_per_thread];
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u) {
    const std::int64_t item = first + u * threads;
    index[u] = -1;
    if (item >= run.items) continue;
    const std::int64_t row = items_per_row == 1 ? item : divide(item, items_per_row);
    const std::int64_t column = (item - row * items_per_row) * width;
    const DeviceOffsets at = offsets_at(run.rows, row);
    index[u] = run.indices(at.indices);
    out[u].from = at.values + column;
    out[u].to = at.result + column;
  }
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u) {
    out[u].exists = index[u] >= 0 && index[u] < run.index_extent;
    out[u].from += index[u] * run.index_stride;
  }
}

template <class Word> __global__ void __launch_bounds__(threads) copy_words_kernel(const GatherLaunch run) {
  device::start_after_earlier_kernels();
  GatherItem items[items_per_thread];
  find_items(run, 1, items);
  Word words[items_per_thread];
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u)
    words[u] = items[u].exists ? static_cast<const Word*>(run.values)[items[u].from] : Word{};
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u)
    if (items[u].to >= 0) static_cast<Word*>(run.result)[items[u].to] = words[u];
}

// Each warp copies a row's next `gathered_part_words`, the last one of a row what is left.
template <class Word> __global__ void __launch_bounds__(threads) copy_wide_rows_kernel(const GatherLaunch run) {
  device::start_after_earlier_kernels();
  const std::int64_t part = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / warp_threads;
  const std::int64_t parts_per_row = count_gathered_parts(run.words);
  const std::int64_t row = divide(part, parts_per_row);
  if (row >= run.rows.points) return;
  const std::int64_t first = (part - row * parts_per_row) * gathered_part_words + threadIdx.x % warp_threads;
  const DeviceOffsets at = offsets_at(run.rows, row);
  const std::int64_t index = run.indices(at.indices);
  const bool exists = index >= 0 && index < run.index_extent;
  const Word* const from = static_cast<const Word*>(run.values) + at.values + index * run.index_stride;
  Word* const to = static_cast<Word*>(run.result) + at.result;
  Word words[items_per_thread];
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u) {
    const std::int64_t column = first + u * warp_threads;
    words[u] = exists && column < run.words ? from[column] : Word{};
  }
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u)
    if (const std::int64_t column = first + u * warp_threads; column < run.words) to[column] = words[u];
}

template <NumberFormat from, NumberFormat to, int W> __global__ void __launch_bounds__(threads)
    convert_elements_kernel(const GatherLaunch run) {
  device::start_after_earlier_kernels();
  GatherItem items[items_per_thread];
  find_items(run, W, items);
  Pack<from, W> x[items_per_thread];
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u)
    x[u] = tile::cuda::read<from, W, W, CachePolicy::cached>(static_cast<const char*>(run.values), items[u].from,
                                                             items[u].exists);
#pragma unroll
  for (int u = 0; u < items_per_thread; ++u) {
    float y[W];
#pragma unroll
    for (int i = 0; i < W; ++i) y[i] = x[u][i];
    if (items[u].to >= 0)
      tile::cuda::write<to, W, W, CachePolicy::cached>(static_cast<char*>(run.result), items[u].to, y);
  }
}

cudaError_t convert(const GatherScatterLoops& l, const GatherLaunch& run, int width, cudaStream_t stream) {
  const device::LaunchShape shape{.blocks = blocks_for(run.items, threads * items_per_thread), .threads = threads};
  cudaError_t error = cudaSuccess;
  with_format(l.values, [&]<NumberFormat from>() {
    with_format(l.result, [&]<NumberFormat to>() {
      if constexpr (from != to)
        error = device::launch_dependent(width == converted_width ? convert_elements_kernel<from, to, converted_width>
                                                                  : convert_elements_kernel<from, to, 1>,
                                         shape, stream, run);
    });
  });
  return error;
}

cudaError_t copy(const GatherLaunch& run, int word, cudaStream_t stream) {
  const auto launch = [&](auto kernel, std::int64_t blocks) {
    return device::launch_dependent(kernel, {.blocks = blocks, .threads = threads}, stream, run);
  };
  if (word == widest_gathered_word && is_wide_gather(run.words))
    return launch(copy_wide_rows_kernel<uint4>,
                  blocks_for(run.rows.points * count_gathered_parts(run.words), threads / warp_threads));
  const std::int64_t blocks = blocks_for(run.items, threads * items_per_thread);
  switch (word) {
    case 16: return launch(copy_words_kernel<uint4>, blocks);
    case 8: return launch(copy_words_kernel<uint2>, blocks);
    case 4: return launch(copy_words_kernel<std::uint32_t>, blocks);
    default: return launch(copy_words_kernel<std::uint16_t>, blocks);
  }
}

// Divides the distances of the loop, in elements, by the elements of a word.
void count_in_words(GatherLaunch& run, std::vector<LoopAxis>& axes, std::int64_t width) {
  for (LoopAxis& axis : axes) {
    axis.values /= width;
    axis.result /= width;
  }
  run.index_stride /= width;
  run.words /= width;
}

}  // namespace

Status run_gather(const GatherScatterLoops& l, std::span<void* const> data, CUstream_st* stream) {
  IndexedAxes axes(l.axes);
  const bool has_rows = axes.is_contiguous_row();
  if (!has_rows) axes.outer.push_back(axes.inner);
  GatherLaunch run{.indices = {data[1], l.indices == DType::int8},
                   .values = data[0],
                   .result = data[2],
                   .index_extent = l.index_extent,
                   .index_stride = l.index_stride,
                   .words = has_rows ? axes.inner.extent : 1};
  const std::int64_t points = count_points(axes.outer);
  if (points * run.words == 0) return Done{};
  int width = has_rows ? find_row_width(l, axes.outer, run.words, data[0], data[2]) : 1;
  if (l.values == l.result) {
    count_in_words(run, axes.outer, width);
    run.items = points * run.words;
  } else {
    width = width >= converted_width ? converted_width : 1;
    run.items = points * run.words / width;
  }
  run.rows = make_device_axes(axes.outer);
  return device::to_status(
      l.values == l.result ? copy(run, width * dtype_bits(l.values) / 8, stream) : convert(l, run, width, stream),
      "launching a gather");
}

}  // namespace ridge::ops::cuda
