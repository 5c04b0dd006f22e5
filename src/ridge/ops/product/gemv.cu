#include "ridge/device/device.h"
#include "ridge/ops/product/gemv.h"

#include <algorithm>

#include "ridge/device/cuda_status.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/ops/product/strided.h"
#include "ridge/tile/grouped_scheduler.h"
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::Major, tile::StorageFormat;

// Copies treat elements as integers of their size. Element x of line r of matrix i is
// data[i * batch_stride + r * line_stride + x].
template <class Element> struct LineSource {
  const Element* data;
  Index length, lines, matrices, line_stride, batch_stride;
};

template <class Element> inline constexpr int per_unit = 16 / sizeof(Element);  // elements in 16 bytes

// Loads 16 bytes of a line starting at element x, with zeros after its end. The start of a line is aligned to `Word`.
template <class Word, class Element> __device__ uint4 load_unit(const Element* line, Index x, Index length) {
  alignas(16) Element out[per_unit<Element>];
  if (x + per_unit<Element> <= length) {
    constexpr int words = 16 / sizeof(Word);
#pragma unroll
    for (int q = 0; q < words; ++q) reinterpret_cast<Word*>(out)[q] = reinterpret_cast<const Word*>(line + x)[q];
  } else {
#pragma unroll
    for (int q = 0; q < per_unit<Element>; ++q) out[q] = x + q < length ? line[x + q] : 0;
  }
  return *reinterpret_cast<const uint4*>(out);
}

// Waits for earlier kernels before the product may start, so that it may prefetch results of all of them but the copy.
TILE_FN void begin_copy() {
  tile::sm90::wait_for_earlier_kernels();
  tile::sm90::let_next_kernel_start();
}

template <class Word, class Count, class Element>
__global__ void copy_to_aligned_lines_kernel(LineSource<Element> from, Element* to, Count chunks, Count all) {
  begin_copy();
  const Count lines = static_cast<Count>(from.lines);
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += Count{gridDim.x} * blockDim.x) {
    const Count row = i / chunks, x = i % chunks * per_unit<Element>;
    const Element* const line = from.data + row / lines * from.batch_stride + row % lines * from.line_stride;
    *reinterpret_cast<uint4*>(to + static_cast<Index>(row) * static_cast<Index>(chunks) * per_unit<Element> + x) =
        load_unit<Word>(line, x, from.length);
  }
}

// Transposes squares of 128 bytes in shared memory, so that lines are read and written contiguously. A thread waits
// once for up to 16 loads.
constexpr int copy_threads = 256;
template <class Element> inline constexpr int square_elements = swizzle_bytes / static_cast<int>(sizeof(Element));
template <class Word, class Element> __global__ void __launch_bounds__(copy_threads)
    transpose_kernel(LineSource<Element> from, Element* to, Index to_line) {
  begin_copy();
  constexpr int side = square_elements<Element>, wide = sizeof(Word) / sizeof(Element), words = side / wide,
                loads = side * words / copy_threads, in_flight = loads < 16 ? loads : 16,
                units = side / per_unit<Element>;
  __shared__ Element square[side][side + 4 / sizeof(Element)];
  const Index squares_down = to_line / side, first = blockIdx.x % squares_down * side,
              left = blockIdx.x / squares_down * side;
  for (Index matrix = blockIdx.y; matrix < from.matrices; matrix += gridDim.y) {
    const Element* const data = from.data + matrix * from.batch_stride + first * from.line_stride + left;
    const auto line_of = [](int load) { return (static_cast<int>(threadIdx.x) + load * copy_threads) / words; };
    const int x = static_cast<int>(threadIdx.x) % words * wide;
#pragma unroll 1
    for (int done = 0; done < loads; done += in_flight) {
      Word loaded[in_flight] = {};
#pragma unroll
      for (int i = 0; i < in_flight; ++i)
        if (const int r = line_of(done + i); first + r < from.lines && left + x < from.length)
          loaded[i] = *reinterpret_cast<const Word*>(data + r * from.line_stride + x);
#pragma unroll
      for (int i = 0; i < in_flight; ++i)
#pragma unroll
        for (int q = 0; q < wide; ++q)
          square[line_of(done + i)][x + q] = reinterpret_cast<const Element*>(loaded + i)[q];
    }
    __syncthreads();
#pragma unroll
    for (int e = threadIdx.x; e < side * units; e += copy_threads) {
      const int column = e / units, r = e % units * per_unit<Element>;
      alignas(16) Element out[per_unit<Element>];
#pragma unroll
      for (int q = 0; q < per_unit<Element>; ++q) out[q] = square[r + q][column];
      if (left + column < from.length)
        *reinterpret_cast<uint4*>(to + (matrix * from.length + left + column) * to_line + first + r) =
            *reinterpret_cast<const uint4*>(out);
    }
    __syncthreads();
  }
}

using OneElement = tile::sm90::EpilogueRun<1, tile::sm90::RunDirection::row>;
constexpr int square_side = 32;  // A block of 32 x 8 threads computes 32 x 32 elements of D

// Returns an element in the type of its sums: int32 of int8, f32 of all others.
template <class Sum> __device__ Sum load_factor(StorageFormat in, const void* data, Index i) {
  if constexpr (std::is_same_v<Sum, std::int32_t>)
    return static_cast<const std::int8_t*>(data)[i];
  else
    return tile::sm90::read_stored(in, data, i);
}

// With `groups.starts`, product i computes the rows of group i.
template <class Sum> __global__ void plain_matmul_kernel(StridedOperand a, StridedOperand b,
                                                         const __grid_constant__ StridedOutput d, Index batch, Index k,
                                                         StorageFormat in, tile::RowGroups groups) {
  __shared__ Sum from_a[square_side][square_side + 1], from_b[square_side][square_side + 1];
  const Index across = (d.cols + square_side - 1) / square_side, down = (d.rows + square_side - 1) / square_side;
  for (Index i = blockIdx.x; i < across * down * batch; i += gridDim.x) {
    const Index product = i / (across * down), col = i % across * square_side;
    Index row = i / across % down * square_side, end = d.rows;
    if (groups.starts) {
      const tile::GroupRows rows = groups.rows_of_group(static_cast<int>(product), static_cast<int>(d.rows));
      row += rows.begin;
      end = rows.end;
      if (row >= end) continue;
    }
    Sum sum[4] = {};
    for (Index q = 0; q < k; q += square_side) {
      for (int r = threadIdx.y; r < square_side; r += 8) {
        const Index depth = q + threadIdx.x;
        from_a[r][threadIdx.x] =
            row + r < end && depth < k
                ? load_factor<Sum>(in, a.data, product * a.batch_stride + (row + r) * a.step + depth * a.k_step)
                : 0;
        from_b[r][threadIdx.x] =
            col + r < d.cols && depth < k
                ? load_factor<Sum>(in, b.data, product * b.batch_stride + (col + r) * b.step + depth * b.k_step)
                : 0;
      }
      __syncthreads();
      const int step_depth = k - q < square_side ? static_cast<int>(k - q) : square_side;
      Sum partial[4] = {};  // Separate partial sums: the error grows with the square root of the terms of a sum
      for (int t = 0; t < step_depth; ++t)
        for (int r = 0; r < 4; ++r) partial[r] += from_a[threadIdx.y + 8 * r][t] * from_b[threadIdx.x][t];
      for (int r = 0; r < 4; ++r) sum[r] += partial[r];
      __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
      const Index y = row + threadIdx.y + 8 * r, x = col + threadIdx.x;
      if (y >= end || x >= d.cols) continue;
      const OneElement at{y, x, product, 1};
      if constexpr (std::is_same_v<Sum, std::int32_t>)
        if (d.target.format == StorageFormat::int32) {
          tile::sm90::apply_and_store<false>(d, tile::sm90::EpilogueVector<1>{{__int_as_float(sum[r])}}, at);
          continue;
        }
      tile::sm90::apply_and_store(d, tile::sm90::EpilogueVector<1>{{static_cast<float>(sum[r])}}, at);
    }
  }
}

// GEMV kernel: computes a few rows of D from lines along k, which are aligned to `Word`.
constexpr int gemv_warps = GemvLineWarps::per_block;
template <class T, int rows> inline constexpr int columns_of_group = GemvLineWarps::columns(rows, sizeof(T));
template <class T, int rows> inline constexpr int words_of_round = GemvLineWarps::words(rows, sizeof(T));
template <class T> using ElementBits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
template <class T> __device__ float to_float(ElementBits<T> bits) {
  if constexpr (std::is_same_v<T, float>)
    return __uint_as_float(bits);
  else
    return tile::sm90::unpack_pair<T>(bits).x;
}
template <class T, class Word> __device__ void add_dot(float& sum, const Word& a, const Word& b) {
  const auto* const x = reinterpret_cast<const ElementBits<T>*>(&a);
  const auto* const y = reinterpret_cast<const ElementBits<T>*>(&b);
#pragma unroll
  for (int q = 0; q < static_cast<int>(sizeof(Word) / sizeof(T)); ++q) sum += to_float<T>(x[q]) * to_float<T>(y[q]);
}

// Loads *from, or zeros unless `inside`. `volatile` keeps the compiler from delaying the loads until their use.
__device__ void load_or_zero(uint4& to, const void* from, bool inside) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; "
      "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
      : "=&r"(to.x), "=&r"(to.y), "=&r"(to.z), "=&r"(to.w)
      : "l"(from), "r"(static_cast<int>(inside)));
}
__device__ void load_or_zero(uint2& to, const void* from, bool inside) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.v2.b32 {%0, %1}, [%2]; }"
      : "=&r"(to.x), "=&r"(to.y)
      : "l"(from), "r"(static_cast<int>(inside)));
}
__device__ void load_or_zero(std::uint32_t& to, const void* from, bool inside) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.b32 %0, [%1]; }"
               : "=&r"(to)
               : "l"(from), "r"(static_cast<int>(inside)));
}
__device__ void load_or_zero(std::uint16_t& to, const void* from, bool inside) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b16 %0, 0; @p ld.global.b16 %0, [%1]; }"
               : "=&h"(to)
               : "l"(from), "r"(static_cast<int>(inside)));
}

template <class T, class Word, int rows> __global__ void __launch_bounds__(gemv_warps * 32)
    gemv_kernel(StridedOperand a, StridedOperand b, const __grid_constant__ StridedOutput d, Index batch, Index k,
                int warps_per_group) {
  tile::sm90::wait_for_earlier_kernels();
  tile::sm90::let_next_kernel_start();
  constexpr int wide = sizeof(Word) / sizeof(T), sums = rows * columns_of_group<T, rows>;
  using Element = ElementBits<T>;
  __shared__ float warp_sums[gemv_warps][sums];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp / warps_per_group * warps_per_group;
  const Index col =
      (Index{blockIdx.x} * (gemv_warps / warps_per_group) + warp / warps_per_group) * columns_of_group<T, rows>;
  const Index full_k = k / wide * wide;
  for (Index product = blockIdx.y; product < batch; product += gridDim.y) {
    const Element *from_a[rows], *from_b[columns_of_group<T, rows>];
#pragma unroll
    for (int r = 0; r < rows; ++r)
      from_a[r] =
          static_cast<const Element*>(a.data) + product * a.batch_stride + (r < d.rows ? r : d.rows - 1) * a.step;
#pragma unroll
    for (int c = 0; c < columns_of_group<T, rows>; ++c)
      from_b[c] = static_cast<const Element*>(b.data) + product * b.batch_stride +
                  (col + c < d.cols ? col + c : d.cols - 1) * b.step;
    float sum[rows][columns_of_group<T, rows>] = {};
    const auto multiply = [&]<class W>(const W(&x)[rows], const W(&y)[columns_of_group<T, rows>]) {
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int c = 0; c < columns_of_group<T, rows>; ++c) add_dot<T>(sum[r][c], x[r], y[c]);
    };
    const int step = warps_per_group * 32 * wide;
    for (Index at = (warp % warps_per_group * 32 + lane) * wide; at < full_k; at += step * words_of_round<T, rows>) {
      Word x[words_of_round<T, rows>][rows], y[words_of_round<T, rows>][columns_of_group<T, rows>];
#pragma unroll
      for (int u = 0; u < words_of_round<T, rows>; ++u) {
        const Index index = at + u * step;
        const bool inside = index < full_k;
#pragma unroll
        for (int c = 0; c < columns_of_group<T, rows>; ++c) load_or_zero(y[u][c], from_b[c] + index, inside);
#pragma unroll
        for (int r = 0; r < rows; ++r) load_or_zero(x[u][r], from_a[r] + index, inside);
      }
#pragma unroll
      for (int u = 0; u < words_of_round<T, rows>; ++u)
        if (at - lane * wide + u * step < full_k) multiply(x[u], y[u]);  // Uniform in the warp
    }
    if (warp == first && full_k + lane < k) {
      Element x[rows], y[columns_of_group<T, rows>];
#pragma unroll
      for (int c = 0; c < columns_of_group<T, rows>; ++c) y[c] = from_b[c][full_k + lane];
#pragma unroll
      for (int r = 0; r < rows; ++r) x[r] = from_a[r][full_k + lane];
      multiply(x, y);
    }
#pragma unroll
    for (int i = 0; i < sums; ++i) {
      float s = sum[i / columns_of_group<T, rows>][i % columns_of_group<T, rows>];
#pragma unroll
      for (int across = 16; across > 0; across /= 2) s += __shfl_xor_sync(~0u, s, across);
      if (lane == 0) warp_sums[warp][i] = s;
    }
    __syncthreads();
    const Index y = lane / columns_of_group<T, rows>, x = col + lane % columns_of_group<T, rows>;
    if (warp == first && lane < sums && y < d.rows && x < d.cols) {
      float s = 0;
      for (int w = 0; w < warps_per_group; ++w) s += warp_sums[first + w][lane];
      tile::sm90::apply_and_store(d, tile::sm90::EpilogueVector<1>{{s}}, OneElement{y, x, product, 1});
    }
    __syncthreads();
  }
}

// The same for operands whose B is contiguous along n, and any A. A thread computes the sums of
// adjacent columns that it loads as one word. The columns have `column_threads` threads; `k_threads` such groups of a
// block divide the lines of B.
template <class T, class Word, int rows> __global__ void __launch_bounds__(GemvColumnThreads::max_count(rows))
    gemv_columns_kernel(StridedOperand a, StridedOperand b, const __grid_constant__ StridedOutput d, Index batch,
                        Index k, int column_threads, int k_threads) {
  tile::sm90::wait_for_earlier_kernels();
  tile::sm90::let_next_kernel_start();
  constexpr int wide = sizeof(Word) / sizeof(T), sums = rows * wide;
  using Element = ElementBits<T>;
  constexpr int loads = GemvColumnThreads::loads;
  __shared__ float partial[GemvColumnThreads::max_count(rows) * sums];
  const int column = static_cast<int>(threadIdx.x) % column_threads,
            first = static_cast<int>(threadIdx.x) / column_threads;
  const Index col = (Index{blockIdx.x} * column_threads + column) * wide;
  const bool has_columns = col < d.cols;
  for (Index product = blockIdx.y; product < batch; product += gridDim.y) {
    const Element* const from_b =
        static_cast<const Element*>(b.data) + product * b.batch_stride + (has_columns ? col : 0);
    const Element* from_a[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r)
      from_a[r] =
          static_cast<const Element*>(a.data) + product * a.batch_stride + (r < d.rows ? r : d.rows - 1) * a.step;
    float sum[rows][wide] = {};
    for (Index at = first; at < k; at += k_threads * loads) {
      Word y[loads];
      Element x[loads][rows];
#pragma unroll
      for (int u = 0; u < loads; ++u) {
        const Index line = at + u * k_threads;
        const bool inside = line < k;
        load_or_zero(y[u], from_b + line * b.k_step, inside && has_columns);
#pragma unroll
        for (int r = 0; r < rows; ++r) load_or_zero(x[u][r], from_a[r] + line * a.k_step, inside);
      }
#pragma unroll
      for (int u = 0; u < loads; ++u)
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          const float factor = to_float<T>(x[u][r]);
#pragma unroll
          for (int c = 0; c < wide; ++c) sum[r][c] += factor * to_float<T>(reinterpret_cast<const Element*>(&y[u])[c]);
        }
    }
    if (k_threads > 1) {
      __syncthreads();  // The previous product's sums were read
#pragma unroll
      for (int i = 0; i < sums; ++i) partial[threadIdx.x * sums + i] = sum[i / wide][i % wide];
      __syncthreads();
      for (int other = 1; first == 0 && other < k_threads; ++other)
#pragma unroll
        for (int i = 0; i < sums; ++i) sum[i / wide][i % wide] += partial[(other * column_threads + column) * sums + i];
    }
    if (first > 0 || !has_columns) continue;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (r >= d.rows) break;
      using Run = tile::sm90::EpilogueRun<wide, tile::sm90::RunDirection::row>;
      tile::sm90::apply_and_store(d, tile::sm90::EpilogueVector<wide>::of([&](int c) { return sum[r][c]; }),
                                  Run{r, col, product, static_cast<int>(d.cols - col < wide ? d.cols - col : wide)});
    }
  }
}

}  // namespace

namespace {

// Launches with the largest shared memory carveout, as products do: a multiprocessor must be idle to change its
// carveout.
template <class Kernel, class... Arguments>
cudaError_t launch_with_carveout(Kernel* kernel, const device::LaunchShape& shape, cudaStream_t stream,
                                 const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  return device::launch_dependent(kernel, shape, stream, arguments...);
}

constexpr Index max_blocks_y = 65535;  // CUDA's limit on the second axis of a grid
template <class Word, class Element>
cudaError_t launch_copy(const LineSource<Element>& from, Element* to, Index line, cudaStream_t stream) {
  const Index chunks = line / per_unit<Element>, all = from.matrices * from.lines * chunks;
  const device::LaunchShape shape{std::min<Index>((all + 255) / 256, 16 * device::multiprocessor_count()),
                                  copy_threads};
  if (all >= Index{1} << 31)
    return launch_with_carveout(copy_to_aligned_lines_kernel<Word, std::uint64_t, Element>, shape, stream, from, to,
                                static_cast<std::uint64_t>(chunks), static_cast<std::uint64_t>(all));
  return launch_with_carveout(copy_to_aligned_lines_kernel<Word, std::uint32_t, Element>, shape, stream, from, to,
                              static_cast<std::uint32_t>(chunks), static_cast<std::uint32_t>(all));
}
template <class Word, class Element>
cudaError_t launch_transpose(const LineSource<Element>& from, Element* to, Index line, cudaStream_t stream) {
  constexpr Index side = square_elements<Element>;
  const device::LaunchShape shape{.blocks = line / side * ((from.length + side - 1) / side),
                                  .threads = copy_threads,
                                  .blocks_y = std::min(from.matrices, max_blocks_y)};
  return launch_with_carveout(transpose_kernel<Word, Element>, shape, stream, from, to, line);
}

// Returns the bitwise or of the address and the byte strides; its low zero bits give the alignment of all lines.
std::uintptr_t alignment_bits(const TileOperand& x, Index line_stride, Index matrices) {
  return reinterpret_cast<std::uintptr_t>(x.data) | static_cast<std::uintptr_t>(x.bytes(line_stride)) |
         (matrices > 1 ? static_cast<std::uintptr_t>(x.bytes(x.batch_stride)) : 0);
}

template <class Element> cudaError_t copy_lines(const TileOperand& x, bool transpose, const LineSource<Element>& from,
                                                Element* to, cudaStream_t stream) {
  const Index line = copy_line_stride(transpose ? with_contiguous_k(x) : x);
  const std::uintptr_t bits = alignment_bits(x, x.line_stride, from.matrices);
  if (transpose) {
    const std::uintptr_t whole = bits | static_cast<std::uintptr_t>(x.bytes(from.length));
    if (whole % 16 == 0) return launch_transpose<uint4>(from, to, line, stream);
    if constexpr (sizeof(Element) < 4)
      if (whole % 4 != 0) return launch_transpose<Element>(from, to, line, stream);
    return launch_transpose<std::uint32_t>(from, to, line, stream);
  }
  if (bits % 16 == 0) return launch_copy<uint4>(from, to, line, stream);
  return bits % 4 == 0 ? launch_copy<std::uint32_t>(from, to, line, stream)
                       : launch_copy<Element>(from, to, line, stream);
}

template <class T, class Word>
cudaError_t launch_gemv_lines(const TileProblem& t, const StridedOutput& d, cudaStream_t stream) {
  const GemvLineWarps divided = divide_gemv_warps(t.size, sizeof(T), sizeof(Word));
  const device::LaunchShape shape{
      .blocks = divided.blocks_across, .threads = gemv_warps * 32, .blocks_y = std::min<Index>(t.batch, max_blocks_y)};
  const auto go = [&](auto kernel) {
    return launch_with_carveout(kernel, shape, stream, to_strided(t.a), to_strided(t.b), d, Index{t.batch},
                                Index{t.size.k}, divided.warps);
  };
  if (t.size.m == 1) return go(gemv_kernel<T, Word, 1>);
  return t.size.m == 2 ? go(gemv_kernel<T, Word, 2>) : go(gemv_kernel<T, Word, 4>);
}
template <class T, class Word>
cudaError_t launch_gemv_columns(const TileProblem& t, const StridedOutput& d, cudaStream_t stream) {
  constexpr Index wide = sizeof(Word) / sizeof(T);
  const GemvColumnThreads threads = divide_gemv_threads(t.size, t.batch, wide, device::multiprocessor_count());
  const device::LaunchShape shape{
      .blocks = threads.blocks_across, .threads = threads.count(), .blocks_y = std::min<Index>(t.batch, max_blocks_y)};
  const auto go = [&](auto kernel) {
    return launch_with_carveout(kernel, shape, stream, to_strided(t.a), to_strided(t.b), d, Index{t.batch},
                                Index{t.size.k}, threads.columns, threads.lines);
  };
  if (t.size.m == 1) return go(gemv_columns_kernel<T, Word, 1>);
  return t.size.m == 2 ? go(gemv_columns_kernel<T, Word, 2>) : go(gemv_columns_kernel<T, Word, 4>);
}
template <class T> cudaError_t launch_gemv_columns(const TileProblem& t, const StridedOutput& d, cudaStream_t stream) {
  const std::uintptr_t bits = alignment_bits(t.b, t.size.k > 1 ? t.b.line_stride : 0, t.batch) |
                              static_cast<std::uintptr_t>(t.b.bytes(t.size.n));
  if (bits % 16 == 0) return launch_gemv_columns<T, uint4>(t, d, stream);
  if (bits % 4 == 0) return launch_gemv_columns<T, std::uint32_t>(t, d, stream);
  return launch_gemv_columns<T, ElementBits<T>>(t, d, stream);
}

template <class T> cudaError_t launch_gemv(const TileProblem& t, const StridedOutput& d, cudaStream_t stream) {
  if (t.b.major != Major::k) return launch_gemv_columns<T>(t, d, stream);
  const std::uintptr_t bits = alignment_bits(t.a, t.size.m > 1 ? t.a.line_stride : 0, t.batch) |
                              alignment_bits(t.b, t.size.n > 1 ? t.b.line_stride : 0, t.batch);
  if constexpr (sizeof(T) == 4)
    if (bits % 16 == 0) return launch_gemv_lines<T, uint4>(t, d, stream);
  if (bits % 8 == 0) return launch_gemv_lines<T, uint2>(t, d, stream);
  return bits % 4 == 0 ? launch_gemv_lines<T, std::uint32_t>(t, d, stream)
                       : launch_gemv_lines<T, ElementBits<T>>(t, d, stream);
}

}  // namespace

Status copy_to_aligned_lines(const TileOperand& x, bool transpose, void* to, std::int64_t batch, cudaStream_t stream) {
  return OperandDTypes::dispatch_or_error("a copy of an operand", x.dtype, [&]<class T>() {
    using Element = typename OperandType<T>::Word;
    const LineSource<Element> from{static_cast<const Element*>(x.data), x.contiguous_extent(), x.line_count(),
                                   x.batch_stride == 0 ? 1 : batch,     x.line_stride,         x.batch_stride};
    return device::to_status(copy_lines(x, transpose, from, static_cast<Element*>(to), stream), "copying an operand");
  });
}

Status multiply_gemv(const TileProblem& t, const tile::TargetOutput& output, cudaStream_t stream) {
  const StridedOutput d{t.d, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride, output};
  return StoredFloats::dispatch_or_error("a product of a few rows", t.a.dtype, [&]<class T>() {
    return device::to_status(launch_gemv<T>(t, d, stream), "launching the product");
  });
}

Status multiply_plain(const TileProblem& t, const tile::TargetOutput& output, cudaStream_t stream) {
  const StridedOutput d{t.d, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride, output};
  const double squares = static_cast<double>(t.batch) *
                         static_cast<double>((t.size.m + square_side - 1) / square_side) *
                         static_cast<double>((t.size.n + square_side - 1) / square_side);
  auto* const kernel = has_integer_sums(t.a.dtype) ? plain_matmul_kernel<std::int32_t> : plain_matmul_kernel<float>;
  kernel<<<static_cast<unsigned>(std::min(squares, 1e6)), dim3(square_side, 8), 0, stream>>>(
      to_strided(t.a), to_strided(t.b), d, t.batch, t.size.k, tile::to_storage_format(t.a.dtype),
      tile::RowGroups{t.starts});
  return device::to_status(cudaGetLastError(), "launching the product");
}

}  // namespace ridge::ops::cuda
