#include "ridge/kernels/matmul_plain.h"

#include <algorithm>

#include "ridge/tile/target/sm90/finish.h"

namespace ridge::kernels::cuda {
namespace {

using tile::Index, tile::Major, tile::Stored;

struct Source {  // element x of line r of matrix i: data[i * batch_stride + r * line + x * step]
  const std::uint16_t* data;
  Index length, lines, matrices, step, line, batch_stride;
};

// A thread writes 8 elements (16 bytes) of a line; what lies behind the line's end is set to zero.
__global__ void copy_lines_kernel(Source from, std::uint16_t* to, Index to_line) {
  const Index chunks = to_line / 8, all = from.matrices * from.lines * chunks;
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < all; i += Index{gridDim.x} * blockDim.x) {
    const Index row = i / chunks, x = i % chunks * 8;
    const std::uint16_t* const line = from.data + row / from.lines * from.batch_stride + row % from.lines * from.line;
    alignas(16) std::uint16_t eight[8];
#pragma unroll
    for (int q = 0; q < 8; ++q) eight[q] = x + q < from.length ? line[(x + q) * from.step] : 0;
    *reinterpret_cast<uint4*>(to + row * to_line + x) = *reinterpret_cast<const uint4*>(eight);
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
      if (y < d.rows && x < d.cols) tile::sm90::put_finished<1>(d, sum + r, y, x, product);
    }
  }
}

Lines lines(const TileOperand& x) {
  const bool along_k = x.major == Major::k;
  return {x.data, along_k ? x.line : 1, along_k ? 1 : x.line, x.batch_stride};
}

}  // namespace

cudaError_t copy_lines(const TileOperand& x, bool turn, void* to, std::int64_t batch, cudaStream_t stream) {
  const TileOperand y = turn ? turned(x) : x;
  const std::int64_t matrices = x.batch_stride == 0 ? 1 : batch, line = copied_line(y);
  const std::int64_t blocks = std::min<std::int64_t>((matrices * y.lines() * line / 8 + 255) / 256, 132 * 16);
  const Source from{static_cast<const std::uint16_t*>(x.data),
                    y.contiguous(),
                    y.lines(),
                    matrices,
                    turn ? x.line : 1,
                    turn ? 1 : x.line,
                    x.batch_stride};
  copy_lines_kernel<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(from, static_cast<std::uint16_t*>(to), line);
  return cudaGetLastError();
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
