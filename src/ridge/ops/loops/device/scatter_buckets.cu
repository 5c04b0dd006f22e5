// Scatters on a device with two kernels. The rows are divided into chunks and the rows of the result, the targets, into
// buckets. In the first kernel, a block sorts the rows of one chunk by bucket. In the second, a block reads the rows of
// one bucket from all chunks, sorts them by target and adds a slice of their columns. Both sorts keep the order of rows
// and use no atomics.
//   Indices 2 0 3 | 2 1 2 in two chunks, buckets of two targets: chunk 0 becomes 0 | 2 3 and chunk 1 becomes 1 | 2 2.
//   The block of bucket 1 reads targets 2 3 2 2, whose rows are 0 2 3 5, and sorts the rows to 0 3 5 | 2.
#include <bit>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/loops/device/scatter.h"

namespace ridge::ops::cuda {
namespace {

constexpr int chunk_threads = 512, bucket_threads = 256;
constexpr int max_chunks = bucket_threads;  // A thread of a bucket's block reads where the bucket begins in one chunk.
constexpr int max_targets = 1024,
              max_buckets = max_bucketed_targets / max_targets;  // Their counters take 32 and 40 KB.
constexpr int max_slice_bytes = 512, min_slice_bytes = 32;       // Values of a row that a warp reads together; a sector
constexpr int max_slice_columns = max_slice_bytes / 2;
constexpr int blocks_per_multiprocessor = 4;  // Blocks of the second kernel that run together
constexpr int kept_rows = 1536;  // Sorted rows in shared memory; those of larger buckets are in global memory.

struct BucketPlan {
  int chunks = 1, buckets = 1, slices = 1, slice_columns = 1;
  std::int64_t chunk_rows = 1, bucket_targets = 1;
  int row_bits = 0;  // Bits of a row's number in its chunk
};
// A word has a target of a bucket and a row of a chunk.
static_assert(max_targets * ((max_sorted_elements + max_chunks - 1) / max_chunks) <= std::int64_t{1} << 32);

// Few targets are divided into more slices of their columns, so that all multiprocessors have work.
BucketPlan plan_buckets(const GatherScatterLoops& l, const ScatterAxes& axes) {
  constexpr std::int64_t min_chunk_rows = chunk_threads;
  const std::int64_t targets = std::max<std::int64_t>(count_targets(l, axes), 1),
                     value_bytes = dtype_bits(l.values) / 8,
                     blocks = std::int64_t{blocks_per_multiprocessor} * std::max(device::multiprocessor_count(), 1);
  BucketPlan out;
  out.chunk_rows = std::max(ceil_div(axes.row_count, std::int64_t{max_chunks}), min_chunk_rows);
  out.chunks = static_cast<int>(std::max<std::int64_t>(ceil_div(axes.row_count, out.chunk_rows), 1));
  out.row_bits = std::bit_width(static_cast<std::uint64_t>(out.chunk_rows - 1));
  const std::int64_t columns = std::max<std::int64_t>(axes.column_count, 1);
  const auto count_slices = [&] { return ceil_div(columns, std::int64_t{out.slice_columns}); };
  out.slice_columns = static_cast<int>(max_slice_bytes / value_bytes);
  while (out.slice_columns * value_bytes > min_slice_bytes && std::min(targets, blocks) * count_slices() < blocks)
    out.slice_columns /= 2;
  out.slices = static_cast<int>(count_slices());
  const std::int64_t useful_buckets = std::clamp<std::int64_t>(blocks / out.slices, 1, max_buckets);
  out.bucket_targets = ceil_div(targets, std::max(useful_buckets, ceil_div(targets, std::int64_t{max_targets})));
  out.buckets = static_cast<int>(ceil_div(targets, out.bucket_targets));
  return out;
}

// Returns the bytes of shared memory before the counters and tiles of a bucket's block.
__host__ __device__ std::size_t starts_bytes(const BucketPlan& plan) {
  constexpr std::size_t unit = sizeof(uint4);
  return ((static_cast<std::size_t>(plan.bucket_targets) + 1) * sizeof(ScatterKey) + unit - 1) / unit * unit;
}

struct BucketRun {
  ScatterRun scatter;
  BucketPlan plan;
  ScatterKey* begins;   // Offset of each bucket's first row in each sorted chunk; one more bucket is empty
  ScatterKey* grouped;  // Rows of each chunk, sorted by bucket: target in the bucket and row in the chunk
  ScatterKey* sorted;   // Rows sorted by target, of buckets with more than `kept_rows`
  std::int64_t column_count;
  std::int64_t prefetched_row_bytes;  // 0 if the values are not contiguous or do not fit into the L2
};

// Replaces `count` numbers by the sums of those before them and appends the sum of all. All threads must call it.
template <int threads> __device__ void sum_earlier(ScatterKey* numbers, int count) {
  __shared__ ScatterKey totals[threads / 32];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int each = (count + threads - 1) / threads, begin = min(thread * each, count), end = min(begin + each, count);
  ScatterKey mine = 0;
#pragma unroll 1
  for (int i = begin; i < end; ++i) mine += numbers[i];
  ScatterKey sum = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const ScatterKey earlier = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += earlier;
  }
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
  sum -= mine;
#pragma unroll 1
  for (int w = 0; w < warp; ++w) sum += totals[w];
#pragma unroll 1
  for (int i = begin; i < end; ++i) {
    const ScatterKey number = numbers[i];
    numbers[i] = sum;
    sum += number;
  }
  if (thread == threads - 1) numbers[count] = sum;
  __syncthreads();
}

struct SortedItem {
  ScatterKey digit, payload;
};
// Calls use(item) for the items begin … end - 1 of a warp, 32 at a time, several of which are loaded together. Lanes
// without an item have the digit `no_digit`.
template <class Read, class Use>
__device__ void visit_items(ScatterKey begin, ScatterKey end, ScatterKey no_digit, const Read& read, const Use& use) {
  constexpr int steps = 2;
  for (ScatterKey first = begin; first < end; first += 32 * steps) {
    SortedItem items[steps];
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      const ScatterKey i = first + s * 32 + threadIdx.x % 32;
      items[s] = {no_digit, 0};
      if (i < end) items[s] = read(i);
    }
#pragma unroll
    for (int s = 0; s < steps; ++s)
      if (first + s * 32 < end) use(items[s]);
  }
}
// Counts the items of a warp's lanes and returns how many items with the same digit the warp had before.
__device__ inline ScatterKey count_item(ScatterKey* counts, ScatterKey digit, bool exists) {
  const unsigned equal = __match_any_sync(~0u, digit), earlier = equal & ((1u << threadIdx.x % 32) - 1);
  const ScatterKey before = exists ? counts[digit] : 0;
  __syncwarp();  // All lanes have read the count.
  if (exists && earlier == 0) counts[digit] = before + __popc(equal);
  __syncwarp();
  return before + __popc(earlier);
}

// Sorts items by their digit, 0 … digits - 1; items of equal digits stay in order, and those with larger digits are
// left out. Calls store(at, payload) for each item and writes to starts[d] the number of items with smaller digits than
// d, for d = 0 … digits. A warp has adjacent items, and `counts` has `digits` counters for each warp. All threads must
// call it.
template <int threads, class Read, class Store> __device__ void sort_items(ScatterKey items, int digits,
                                                                           ScatterKey* counts, ScatterKey* starts,
                                                                           const Read& read, const Store& store) {
  constexpr int warps = threads / 32;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  ScatterKey* const mine = counts + warp * digits;
  const ScatterKey each = (items + threads - 1) / threads * 32, begin = min(warp * each, items),
                   end = min(begin + each, items), no_digit = digits;
#pragma unroll 1
  for (int i = thread; i < warps * digits; i += threads) counts[i] = 0;
  __syncthreads();
  visit_items(begin, end, no_digit, read,
              [&](const SortedItem& item) { count_item(mine, item.digit, item.digit < no_digit); });
  __syncthreads();
#pragma unroll 1
  for (int d = thread; d < digits; d += threads) {
    ScatterKey sum = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const ScatterKey count = counts[w * digits + d];
      counts[w * digits + d] = sum;
      sum += count;
    }
    starts[d] = sum;
  }
  __syncthreads();
  sum_earlier<threads>(starts, digits);
  visit_items(begin, end, no_digit, read, [&](const SortedItem& item) {
    const bool exists = item.digit < no_digit;
    const ScatterKey before = count_item(mine, item.digit, exists);
    if (exists) store(starts[item.digit] + before, item.payload);
  });
  __syncthreads();
}

// Starts to load the values of adjacent rows into the L2.
__device__ void prefetch_rows(const BucketRun& run, std::int64_t first, std::int64_t rows) {
  constexpr std::int64_t piece = 4096, unit = 16;
  const char* const begin = run.scatter.values + first * run.prefetched_row_bytes;
  const std::int64_t bytes = rows * run.prefetched_row_bytes;
  for (std::int64_t at = threadIdx.x * piece; at < bytes; at += chunk_threads * piece) {
    const std::int64_t size = min(piece, bytes - at) / unit * unit;
    if (size > 0)
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(begin + at)),
                   "r"(static_cast<unsigned>(size))
                   : "memory");
  }
}

// Each block sorts the rows of a chunk by bucket.
__global__ void __launch_bounds__(chunk_threads) group_rows_kernel(const BucketRun run) {
  extern __shared__ ScatterKey chunk_counts[];
  cudaTriggerProgrammaticLaunchCompletion();  // The second kernel's blocks may start; they wait for this kernel's end.
  const BucketPlan& plan = run.plan;
  ScatterKey* const starts = chunk_counts + chunk_threads / 32 * plan.buckets;
  const std::int64_t first = blockIdx.x * plan.chunk_rows, rows = min(plan.chunk_rows, run.scatter.row_count - first);
  const auto bucket_targets = static_cast<ScatterKey>(plan.bucket_targets);
  sort_items<chunk_threads>(
      static_cast<ScatterKey>(rows), plan.buckets, chunk_counts, starts,
      [&](ScatterKey row) {
        const ScatterKey target = run.scatter.find_target(first + row);
        if (target >= run.scatter.target_count) return SortedItem{static_cast<ScatterKey>(plan.buckets), 0};
        const ScatterKey bucket = target / bucket_targets;
        return SortedItem{bucket, (target - bucket * bucket_targets) << plan.row_bits | row};
      },
      [&](ScatterKey at, ScatterKey row) { run.grouped[first + at] = row; });
  for (int b = static_cast<int>(threadIdx.x); b <= plan.buckets; b += chunk_threads)
    run.begins[std::int64_t{b} * plan.chunks + blockIdx.x] = starts[b];
  if (run.prefetched_row_bytes > 0) prefetch_rows(run, first, rows);
}

// Returns the largest i with numbers[i] <= x, for ascending numbers of which the first is at most x.
__device__ int find_last(const ScatterKey* numbers, int count, ScatterKey x) {
  int begin = 0, end = count;
#pragma unroll 1
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    (numbers[middle] <= x ? begin : end) = middle;
  }
  return begin;
}

// The rows of a bucket in all chunks.
struct BucketRows {
  const ScatterKey* first;   // Number of the bucket's rows in earlier chunks, and in all
  const ScatterKey* begins;  // Offset of the bucket's first row in each sorted chunk
  __device__ SortedItem read(const BucketRun& run, ScatterKey i) const {
    const int chunk = find_last(first, run.plan.chunks, i);
    const std::int64_t chunk_begin = chunk * run.plan.chunk_rows;
    const ScatterKey word = run.grouped[chunk_begin + begins[chunk] + (i - first[chunk])];
    const ScatterKey row = word & ((1u << run.plan.row_bits) - 1);
    return {word >> run.plan.row_bits, static_cast<ScatterKey>(chunk_begin) + row};
  }
};
__device__ BucketRows find_bucket_rows(const BucketRun& run, int bucket) {
  __shared__ ScatterKey first[max_chunks + 1], begins[max_chunks];
  const int thread = static_cast<int>(threadIdx.x), chunks = run.plan.chunks;
  if (thread < chunks) {
    const std::int64_t at = std::int64_t{bucket} * chunks + thread;
    begins[thread] = run.begins[at];
    first[thread] = run.begins[at + chunks] - begins[thread];
  }
  __syncthreads();
  sum_earlier<bucket_threads>(first, chunks);
  return {first, begins};
}
// Returns where the bucket's sorted rows are stored. Blocks of several slices store the same rows at the same place.
__device__ ScatterKey* find_sorted(const BucketRun& run, const BucketRows& bucket, ScatterKey* kept) {
  if (bucket.first[run.plan.chunks] <= kept_rows) return kept;
  std::int64_t earlier = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < run.plan.chunks; ++chunk) earlier += bucket.begins[chunk];
  return run.sorted + earlier;
}

// The bucket's targets and a slice of their columns, and the sorted rows that are added to them.
struct BucketSlice {
  std::int64_t first_target, first_column;
  int targets, columns;
  ScatterKey rows;
  const ScatterKey* starts;  // Number of rows of smaller targets, for each target and one past the last
  const ScatterKey* sorted;
};

// Sorted rows from `begin` to `end`, whose values in the slice are in shared memory.
template <NumberFormat from, int W> struct RowTile {
  static constexpr int packs = W == 1 ? 8 : 4;  // Packs of a thread
  static constexpr int bytes = packs * bucket_threads * W * tile::cuda::size_of<from>;
  char* data;
  ScatterKey begin = 0, end = 0;
  Pack<from, W> next[packs];  // Packs of the next tile
  static constexpr ScatterKey no_row = ~ScatterKey{0};

  __device__ ScatterKey rows_per_tile(const BucketSlice& s) const { return packs * bucket_threads * W / s.columns; }
  __device__ void load_next(const ScatterRun& run, const BucketSlice& s) {
    const unsigned groups = s.columns / W;
    const ScatterKey limit = min(end + rows_per_tile(s), s.rows);
    ScatterKey rows[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const ScatterKey at = end + (p * bucket_threads + threadIdx.x) / groups;
      rows[p] = at < limit ? s.sorted[at] : no_row;
    }
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t column = s.first_column + (p * bucket_threads + threadIdx.x) % groups * W;
      const std::int64_t at = W > 1 ? column : find_offset(run.columns, run.columns.values, column);
      const bool exists = rows[p] != no_row;
      next[p] = tile::cuda::read<from, W, W, CachePolicy::cached>(
          run.values, exists ? at + find_offset(run.rows, run.rows.values, rows[p]) : 0, exists);
    }
  }
  __device__ void store_next(const BucketSlice& s) {
    constexpr int pack_bytes = W * tile::cuda::size_of<from>;
    begin = end;
    end = min(begin + rows_per_tile(s), s.rows);
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      char* const to = data + (p * bucket_threads + threadIdx.x) * pack_bytes;
      if constexpr (pack_bytes == 2)
        *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(next[p].word[0]);
      else
        tile::cuda::write_bytes<pack_bytes, CachePolicy::cached>(to, next[p].word);
    }
  }
};

template <NumberFormat from, int W> __device__ Pack<from, W> read_shared(const char* data) {
  constexpr int bytes = W * tile::cuda::size_of<from>;
  Pack<from, W> out;
  if constexpr (bytes == 2) {
    out.word[0] = *reinterpret_cast<const std::uint16_t*>(data);
  } else {
    struct alignas(bytes) Words {
      std::uint32_t word[bytes / 4];
    };
    const Words words = *reinterpret_cast<const Words*>(data);
#pragma unroll
    for (int i = 0; i < bytes / 4; ++i) out.word[i] = words.word[i];
  }
  return out;
}

// Adds the tile's rows begin … end - 1 to W adjacent columns from `column` on.
template <int W, NumberFormat from, int tile_width>
__device__ void add_tile_rows(const RowTile<from, tile_width>& tile, int columns, int column, ScatterKey begin,
                              ScatterKey end, float (&sums)[W]) {
  constexpr int unroll = W == 1 ? 16 : 4, size = tile::cuda::size_of<from>;
  const char* data = tile.data + ((begin - tile.begin) * columns + column) * size;
#pragma unroll unroll
  for (ScatterKey row = begin; row < end; ++row, data += columns * size) {
    const Pack<from, W> x = read_shared<from, W>(data);
#pragma unroll
    for (int c = 0; c < W; ++c) sums[c] += x[c];
  }
}

// Sums of the target whose rows are in two tiles: those that the last tile wrote and those that this one writes.
struct CarriedSums {
  float *from, *to;
};
// Adds the tile's rows to the targets first … last - 1; a thread has W adjacent columns of a target.
template <NumberFormat to, int W, NumberFormat from, int tile_width>
__device__ void add_tile(const ScatterRun& run, const BucketSlice& s, const RowTile<from, tile_width>& tile, int first,
                         int last, const CarriedSums& carried) {
  const int groups = s.columns / W, target_step = bucket_threads / groups,
            column_step = (bucket_threads - target_step * groups) * W, thread = static_cast<int>(threadIdx.x);
  int target = first + thread / groups, column = thread % groups * W;
#pragma unroll 1
  while (target < last) {
    const ScatterKey begin = s.starts[target], end = s.starts[target + 1];
    float sums[W] = {};
    if (begin < tile.begin)
#pragma unroll
      for (int c = 0; c < W; ++c) sums[c] = carried.from[column + c];
    if (begin < end) add_tile_rows<W>(tile, s.columns, column, max(begin, tile.begin), min(end, tile.end), sums);
    if (end > tile.end) {
#pragma unroll
      for (int c = 0; c < W; ++c) carried.to[column + c] = sums[c];
    } else {
      const std::int64_t at = s.first_column + column;
      tile::cuda::write<to, W, W, CachePolicy::cached>(
          run.result,
          run.find_result(s.first_target + target) +
              (tile_width > 1 ? at : find_offset(run.columns, run.columns.result, at)),
          sums);
    }
    target += target_step;
    column += column_step;
    if (column >= s.columns) {
      column -= s.columns;
      ++target;
    }
  }
}

// Adds all rows of a slice, a tile at a time. The next tile's values are loaded while the threads add.
template <NumberFormat from, NumberFormat to, int W>
__device__ void add_rows(const ScatterRun& run, const BucketSlice& s, char* tile_data) {
  __shared__ float carried[2][max_slice_columns];
  // With many rows for each pack of the result, single columns give work to more threads.
  constexpr ScatterKey many_rows = 4;
  const bool adds_columns = s.rows > many_rows * s.targets * (s.columns / W);
  RowTile<from, W> tile{.data = tile_data};
  int first = 0, parity = 0;
  while (true) {
    const bool is_last = tile.end == s.rows;
    if (!is_last) tile.load_next(run, s);
    if (is_last || tile.end > 0) {
      const int last = is_last ? s.targets : find_last(s.starts, s.targets, tile.end - 1) + 1;
      const CarriedSums sums{carried[parity], carried[parity ^ 1]};
      if (adds_columns)
        add_tile<to, 1>(run, s, tile, first, last, sums);
      else
        add_tile<to, W>(run, s, tile, first, last, sums);
      first = s.starts[last] > tile.end ? last - 1 : last;
      parity ^= 1;
    }
    if (is_last) return;
    __syncthreads();  // All threads have read the tile.
    tile.store_next(s);
    __syncthreads();
  }
}

// Each block adds the rows of a bucket, in a slice of the columns.
template <NumberFormat from, NumberFormat to, int W>
__global__ void __launch_bounds__(bucket_threads, blocks_per_multiprocessor) add_buckets_kernel(const BucketRun run) {
  extern __shared__ uint4 bucket_memory[];  // Counters of the sort or a tile, then the targets' starts
  __shared__ ScatterKey kept[kept_rows];
  const BucketPlan& plan = run.plan;
  const int bucket = static_cast<int>(blockIdx.y);
  BucketSlice s;
  s.first_target = bucket * plan.bucket_targets;
  s.targets = static_cast<int>(min(plan.bucket_targets, run.scatter.target_count - s.first_target));
  s.first_column = std::int64_t{blockIdx.x} * plan.slice_columns;
  s.columns = static_cast<int>(min(std::int64_t{plan.slice_columns}, run.column_count - s.first_column));
  auto* const starts = reinterpret_cast<ScatterKey*>(bucket_memory);
  auto* const shared = reinterpret_cast<char*>(bucket_memory + starts_bytes(plan) / sizeof(uint4));
  cudaGridDependencySynchronize();
  const BucketRows rows = find_bucket_rows(run, bucket);
  s.rows = rows.first[plan.chunks];
  ScatterKey* const sorted = find_sorted(run, rows, kept);
  sort_items<bucket_threads>(
      s.rows, s.targets, reinterpret_cast<ScatterKey*>(shared), starts, [&](ScatterKey i) { return rows.read(run, i); },
      [&](ScatterKey at, ScatterKey row) { sorted[at] = row; });
  s.starts = starts;
  s.sorted = sorted;
  add_rows<from, to, W>(run.scatter, s, shared);
}

// Launches a kernel whose blocks may start before the previous kernel ends if `overlaps`.
template <class Kernel> cudaError_t launch_kernel(Kernel kernel, dim3 blocks, int threads, std::size_t shared_bytes,
                                                  bool overlaps, const BucketRun& run, cudaStream_t stream) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, run);
}

template <NumberFormat from, NumberFormat to, int W>
cudaError_t launch_buckets(const BucketRun& run, cudaStream_t stream) {
  const BucketPlan& plan = run.plan;
  const std::size_t counters = bucket_threads / 32 * static_cast<std::size_t>(plan.bucket_targets) * sizeof(ScatterKey);
  const std::size_t shared_bytes = starts_bytes(plan) + std::max<std::size_t>(counters, RowTile<from, W>::bytes);
  const dim3 blocks(static_cast<unsigned>(plan.slices), static_cast<unsigned>(plan.buckets));
  return launch_kernel(add_buckets_kernel<from, to, W>, blocks, bucket_threads, shared_bytes, true, run, stream);
}

// Returns the bytes of a row if all values are contiguous, may be prefetched in units of 16 bytes and take at most half
// of the L2; otherwise 0.
std::int64_t find_prefetched_bytes(const GatherScatterLoops& l, const ScatterAxes& axes, const void* values) {
  const std::int64_t row_bytes = axes.column_count * dtype_bits(l.values) / 8;
  const bool is_contiguous = axes.rows.size() == 1 && axes.rows[0].values == axes.column_count &&
                             axes.columns.size() <= 1 && (axes.columns.empty() || axes.columns[0].values == 1);
  if (!is_contiguous || widest_word({values}, {row_bytes}) < 16) return 0;
  int l2_bytes = 0;
  if (cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device::current_device()) != cudaSuccess) return 0;
  return axes.row_count * row_bytes <= l2_bytes / 2 ? row_bytes : 0;
}

BucketRun place_buckets(const GatherScatterLoops& l, const ScatterAxes& axes, WorkspaceParts& parts) {
  BucketRun out{.plan = plan_buckets(l, axes)};
  out.begins = parts.allocate_keys((std::int64_t{out.plan.buckets} + 1) * out.plan.chunks);
  out.grouped = parts.allocate_keys(axes.row_count);
  out.sorted = parts.allocate_keys(axes.row_count);
  return out;
}

}  // namespace

std::size_t bucket_workspace_bytes(const GatherScatterLoops& l, const ScatterAxes& axes) {
  WorkspaceParts parts(nullptr);
  place_buckets(l, axes, parts);
  return parts.bytes();
}

Status scatter_by_buckets(const GatherScatterLoops& l, const ScatterAxes& axes, const ScatterRun& scatter, int width,
                          const device::DeviceWorkspace& workspace, CUstream_st* stream) {
  WorkspaceParts parts(workspace.data);
  BucketRun run = place_buckets(l, axes, parts);
  RIDGE_TRY_STATUS(device::check_workspace(workspace, parts.bytes()));
  run.scatter = scatter;
  run.column_count = axes.column_count;
  run.prefetched_row_bytes = find_prefetched_bytes(l, axes, scatter.values);
  const std::size_t counters = (chunk_threads / 32 + 1) * static_cast<std::size_t>(run.plan.buckets) + 1;
  cudaError_t error = launch_kernel(group_rows_kernel, dim3(static_cast<unsigned>(run.plan.chunks)), chunk_threads,
                                    counters * sizeof(ScatterKey), false, run, stream);
  if (error == cudaSuccess)
    with_format(l.values, [&]<NumberFormat from>() {
      with_format(l.result, [&]<NumberFormat to>() {
        constexpr int wide = 16 / std::max(tile::cuda::size_of<from>, tile::cuda::size_of<to>);
        error = width >= wide ? launch_buckets<from, to, wide>(run, stream) : launch_buckets<from, to, 1>(run, stream);
      });
    });
  return device::to_status(error, "launching a scatter");
}

}  // namespace ridge::ops::cuda
