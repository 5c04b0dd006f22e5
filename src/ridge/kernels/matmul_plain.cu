#include "ridge/kernels/matmul_plain.h"

#include <algorithm>

#include "ridge/tile/target/sm90/finish.h"

namespace ridge::kernels::cuda {
namespace {

using tile::Index, tile::Major, tile::Stored;

struct Source {  // element x of line r of matrix i: data[i * batch_stride + r * line + x]
  const std::uint16_t* data;
  Index length, lines, matrices, line, batch_stride;
};

// Eight elements of a line, from x on, in words that every line's start is aligned to; 0 behind the line's end.
template <class Word> __device__ uint4 eight(const std::uint16_t* line, Index x, Index length) {
  alignas(16) std::uint16_t out[8];
  if (x + 8 <= length) {
    constexpr int words = 16 / sizeof(Word);
#pragma unroll
    for (int q = 0; q < words; ++q) reinterpret_cast<Word*>(out)[q] = reinterpret_cast<const Word*>(line + x)[q];
  } else {
#pragma unroll
    for (int q = 0; q < 8; ++q) out[q] = x + q < length ? line[x + q] : 0;
  }
  return *reinterpret_cast<const uint4*>(out);
}

// A copy lets the product that follows start when all that came before has ended, so what the product reads before it
// waits for the copy may be of anyone but the copy.
TILE_FN void begin_copy() {
  tile::sm90::wait_for_earlier_kernels();
  tile::sm90::let_next_kernel_start();
}

template <class Word, class Count>
__global__ void copy_lines_kernel(Source from, std::uint16_t* to, Count chunks, Count all) {
  begin_copy();
  const Count lines = static_cast<Count>(from.lines);
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += Count{gridDim.x} * blockDim.x) {
    const Count row = i / chunks, x = i % chunks * 8;
    const std::uint16_t* const line = from.data + row / lines * from.batch_stride + row % lines * from.line;
    *reinterpret_cast<uint4*>(to + static_cast<Index>(row) * static_cast<Index>(chunks) * 8 + x) =
        eight<Word>(line, x, from.length);
  }
}

// Lines of fewer than 64 elements become columns: a block turns 64 lines by way of shared memory, so that both what it
// reads and what it writes is contiguous.
constexpr int turned_lines = 64;
template <class Word> __global__ void turn_kernel(Source from, std::uint16_t* to, Index to_line) {
  begin_copy();
  constexpr int wide = sizeof(Word) / 2;
  __shared__ std::uint16_t turning[turned_lines][turned_lines + 2];
  const int length = static_cast<int>(from.length), words = (length + wide - 1) / wide;
  const Index first = Index{blockIdx.x} * turned_lines;
  for (Index matrix = blockIdx.y; matrix < from.matrices; matrix += gridDim.y) {
    const std::uint16_t* const data = from.data + matrix * from.batch_stride;
#pragma unroll 4
    for (int e = threadIdx.x; e < turned_lines * words; e += blockDim.x) {
      const int r = e / words, x = e % words * wide;
      Word word{};
      if (first + r < from.lines) word = *reinterpret_cast<const Word*>(data + (first + r) * from.line + x);
#pragma unroll
      for (int q = 0; q < wide; ++q) turning[r][x + q] = reinterpret_cast<const std::uint16_t*>(&word)[q];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < length * (turned_lines / 8); e += blockDim.x) {
      const int x = e / (turned_lines / 8), r = e % (turned_lines / 8) * 8;
      alignas(16) std::uint16_t out[8];
#pragma unroll
      for (int q = 0; q < 8; ++q) out[q] = turning[r + q][x];
      *reinterpret_cast<uint4*>(to + (matrix * length + x) * to_line + first + r) =
          *reinterpret_cast<const uint4*>(out);
    }
    __syncthreads();
  }
}

struct Lines {  // element (i, k) of product b: data[b * batch_stride + i * step + k * k_step]
  const void* data;
  Index step, k_step, batch_stride;
};
struct Output {
  void* data;
  Index rows, cols, row_stride, batch_stride;
  tile::OutputOnTarget on_target;
};

using OneElement = tile::sm90::Spot<1, tile::sm90::Run::row>;
constexpr int side = 32;  // of the square of D that a block of 32 x 8 threads computes

__global__ void multiply_kernel(Lines a, Lines b, const __grid_constant__ Output d, Index batch, Index k, Stored in) {
  __shared__ float from_a[side][side + 1], from_b[side][side + 1];
  const Index across = (d.cols + side - 1) / side, down = (d.rows + side - 1) / side;
  for (Index i = blockIdx.x; i < across * down * batch; i += gridDim.x) {
    const Index product = i / (across * down), row = i / across % down * side, col = i % across * side;
    float sum[4] = {};
    for (Index q = 0; q < k; q += side) {
      for (int r = threadIdx.y; r < side; r += 8) {
        const Index depth = q + threadIdx.x;
        from_a[r][threadIdx.x] =
            row + r < d.rows && depth < k
                ? tile::sm90::read_stored(in, a.data, product * a.batch_stride + (row + r) * a.step + depth * a.k_step)
                : 0;
        from_b[r][threadIdx.x] =
            col + r < d.cols && depth < k
                ? tile::sm90::read_stored(in, b.data, product * b.batch_stride + (col + r) * b.step + depth * b.k_step)
                : 0;
      }
      __syncthreads();
      const int deep = k - q < side ? static_cast<int>(k - q) : side;
      for (int t = 0; t < deep; ++t)
        for (int r = 0; r < 4; ++r) sum[r] += from_a[threadIdx.y + 8 * r][t] * from_b[threadIdx.x][t];
      __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
      const Index y = row + threadIdx.y + 8 * r, x = col + threadIdx.x;
      if (y < d.rows && x < d.cols)
        tile::sm90::put_finished(d, tile::sm90::Lanes<1>{{sum[r]}}, OneElement{y, x, product, 1});
    }
  }
}

Lines lines(const TileOperand& x) {
  const bool along_k = x.major == Major::k;
  return {x.data, along_k ? x.line : 1, along_k ? 1 : x.line, x.batch_stride};
}

}  // namespace

namespace {

// Dependent, as the products are: launched while the kernel before still runs. The products want all of a
// multiprocessor's shared memory; one that runs a kernel with another split between shared memory and cache would first
// have to fall idle.
template <class Kernel, class... Arguments>
cudaError_t start(Kernel* kernel, dim3 blocks, cudaStream_t stream, const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = dim3(256), config.stream = stream;
  config.attrs = &dependent, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class Word> cudaError_t start_copy(const Source& from, std::uint16_t* to, Index line, cudaStream_t stream) {
  const Index chunks = line / 8, all = from.matrices * from.lines * chunks;
  const dim3 blocks(static_cast<unsigned>(std::min<Index>((all + 255) / 256, 132 * 16)));
  if (all >= Index{1} << 31)
    return start(copy_lines_kernel<Word, std::uint64_t>, blocks, stream, from, to, static_cast<std::uint64_t>(chunks),
                 static_cast<std::uint64_t>(all));
  return start(copy_lines_kernel<Word, std::uint32_t>, blocks, stream, from, to, static_cast<std::uint32_t>(chunks),
               static_cast<std::uint32_t>(all));
}
template <class Word> cudaError_t start_turn(const Source& from, std::uint16_t* to, Index line, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(line / turned_lines),
                    static_cast<unsigned>(std::min<Index>(from.matrices, 65535)));
  return start(turn_kernel<Word>, blocks, stream, from, to, line);
}

// Bytes that every line's start is a multiple of.
int alignment(const Source& x) {
  const auto bits = reinterpret_cast<std::uintptr_t>(x.data) | static_cast<std::uintptr_t>(x.line) * 2 |
                    (x.matrices > 1 ? static_cast<std::uintptr_t>(x.batch_stride) * 2 : 0);
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 2;
}

}  // namespace

cudaError_t copy_lines(const TileOperand& x, bool turn, void* to, std::int64_t batch, cudaStream_t stream) {
  const Index line = copied_line(turn ? turned(x) : x);
  const Source from{static_cast<const std::uint16_t*>(x.data), x.contiguous(), x.lines(),
                    x.batch_stride == 0 ? 1 : batch,           x.line,         x.batch_stride};
  auto* const out = static_cast<std::uint16_t*>(to);
  const int aligned = alignment(from);
  if (turn)
    return aligned == 16 && from.length % 8 == 0 ? start_turn<uint4>(from, out, line, stream)
                                                 : start_turn<std::uint16_t>(from, out, line, stream);
  return aligned == 16  ? start_copy<uint4>(from, out, line, stream)
         : aligned == 4 ? start_copy<std::uint32_t>(from, out, line, stream)
                        : start_copy<std::uint16_t>(from, out, line, stream);
}

cudaError_t multiply_plainly(const TileProblem& t, Stored in, const tile::OutputOnTarget& output, cudaStream_t stream) {
  const Output d{t.d, t.m, t.n, t.d_line, t.d_batch_stride, output};
  const double squares = static_cast<double>(t.batch) * static_cast<double>((t.m + side - 1) / side) *
                         static_cast<double>((t.n + side - 1) / side);
  multiply_kernel<<<static_cast<unsigned>(std::min(squares, 1e6)), dim3(side, 8), 0, stream>>>(lines(t.a), lines(t.b),
                                                                                               d, t.batch, t.k, in);
  return cudaGetLastError();
}

}  // namespace ridge::kernels::cuda
