// One pass over dy and h. A thread handles eight adjacent columns (16 bytes) in every eighth row of its block, so
// column sums stay in registers. Blocks write their sums to the workspace, and a second kernel adds them in a fixed
// order. The pass is memory-bound: 10 bytes per element at about 18 bytes per cycle and multiprocessor hide 60
// instructions.
#include "ridge/ops/gated/gradient.h"

#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/ops/gated/sm90.h"

namespace ridge::ops::cuda {
namespace {

constexpr int warps = 8, vector_elements = 8, block_columns = 32 * vector_elements;
constexpr std::int64_t rows_per_block = GateGradientCall::rows_per_block;

struct ValueAndSlope {
  float value, slope;
};
// Returns act(g) and act'(g).
template <EpilogueActivation activation> __device__ ValueAndSlope evaluate_gate(const SigmoidCoefficients& f, float g) {
  if constexpr (activation == EpilogueActivation::none) return {g, 1};
  if constexpr (activation == EpilogueActivation::relu) return {g < 0 ? 0 : g, g > 0 ? 1.0F : 0.0F};
  const float s = fminf(g * g, f.max_square);
  float z = f.p[5];
#pragma unroll
  for (int i = 4; i >= 0; --i) z = fmaf(z, s, f.p[i]);
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-g * z));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
  if constexpr (activation == EpilogueActivation::gelu) {
    float gaussian;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(gaussian) : "f"(-0.72134752F * (g * g)));
    return {g * r, fmaf(0.39894228F * g, gaussian, r)};
  }
  const float z_slope = fmaf(3 * f.p[1], s, f.p[0]) * 0.69314718F;  // dz / dg in nats
  return {g * r, r * fmaf(g * (1 - r), z_slope, 1.0F)};
}

template <class T> __device__ float decode_element(std::uint16_t bits) { return tile::sm90::widen(T{bits}); }
template <class T> __device__ std::uint16_t encode_element(float x) { return tile::sm90::round_to<T>(x).bits; }

struct GradientArgs {
  std::int64_t m, n, dy_row_stride, h_row_stride, dh_row_stride;
  const std::uint16_t *dy, *h;
  std::uint16_t* dh;
  float* sums;  // [row blocks, 2*n]; null if not needed
  SigmoidCoefficients form;
};

// Reads or writes eight 16-bit elements with one instruction, or the first `count` one by one.
template <bool is_vectorized>
__device__ void read_columns(std::uint16_t (&to)[vector_elements], const std::uint16_t* from, int count) {
  if constexpr (is_vectorized) {
    *reinterpret_cast<uint4*>(to) = __ldcs(reinterpret_cast<const uint4*>(from));
  } else {
#pragma unroll
    for (int i = 0; i < vector_elements; ++i) to[i] = i < count ? from[i] : 0;
  }
}
template <bool is_vectorized>
__device__ void write_columns(std::uint16_t* to, const std::uint16_t (&from)[vector_elements], int count) {
  if constexpr (is_vectorized) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < vector_elements; ++i)
      if (i < count) to[i] = from[i];
  }
}

template <class T, EpilogueActivation activation, bool is_vectorized> __global__ void __launch_bounds__(warps * 32)
    gate_gradient_kernel(const __grid_constant__ GradientArgs p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t col = blockIdx.x * static_cast<std::int64_t>(block_columns) + lane * vector_elements;
  const std::int64_t first = blockIdx.y * rows_per_block, last = min(first + rows_per_block, p.m);
  const int count =
      static_cast<int>(min(static_cast<std::int64_t>(vector_elements), p.n - col));  // Columns inside the matrix
  float sum_u[vector_elements] = {}, sum_g[vector_elements] = {};
  if (count > 0) {
#pragma unroll 2
    for (std::int64_t row = first + warp; row < last; row += warps) {
      alignas(16) std::uint16_t dy[vector_elements], u[vector_elements], g[vector_elements];
      read_columns<is_vectorized>(dy, p.dy + row * p.dy_row_stride + col, count);
      read_columns<is_vectorized>(u, p.h + row * p.h_row_stride + col, count);
      read_columns<is_vectorized>(g, p.h + row * p.h_row_stride + p.n + col, count);
#pragma unroll
      for (int i = 0; i < vector_elements; ++i) {
        const float d = decode_element<T>(dy[i]), v = decode_element<T>(u[i]);
        const ValueAndSlope gate = evaluate_gate<activation>(p.form, decode_element<T>(g[i]));
        const float du = d * gate.value, dg = d * v * gate.slope;
        sum_u[i] += du;
        sum_g[i] += dg;
        u[i] = encode_element<T>(du);
        g[i] = encode_element<T>(dg);
      }
      write_columns<is_vectorized>(p.dh + row * p.dh_row_stride + col, u, count);
      write_columns<is_vectorized>(p.dh + row * p.dh_row_stride + p.n + col, g, count);
    }
  }
  if (p.sums == nullptr) return;
  __shared__ float shared[warps][2][block_columns + 32];
#pragma unroll
  for (int i = 0; i < vector_elements; ++i) {
    shared[warp][0][lane * (vector_elements + 1) + i] = sum_u[i];
    shared[warp][1][lane * (vector_elements + 1) + i] = sum_g[i];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 2 * block_columns; e += warps * 32) {
    const int half = e / block_columns, c = e % block_columns;
    const std::int64_t at = blockIdx.x * static_cast<std::int64_t>(block_columns) + c;
    if (at >= p.n) continue;
    float sum = 0;
    for (int w = 0; w < warps; ++w)
      sum += shared[w][half][c / vector_elements * (vector_elements + 1) + c % vector_elements];
    p.sums[blockIdx.y * 2 * p.n + half * p.n + at] = sum;
  }
}

template <class T> __global__ void add_sums_kernel(const float* sums, std::int64_t blocks, std::int64_t n,
                                                   std::uint16_t* dbu, std::uint16_t* dbg) {
  const std::int64_t col = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  std::uint16_t* const db = col < n ? dbu : dbg;
  if (col >= 2 * n || db == nullptr) return;
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += sums[b * 2 * n + col];
  db[col < n ? col : col - n] = encode_element<T>(sum);
}

template <class T, EpilogueActivation activation>
void launch_pass(const GradientArgs& p, bool is_vectorized, dim3 grid, cudaStream_t stream) {
  if (is_vectorized)
    gate_gradient_kernel<T, activation, true><<<grid, warps * 32, 0, stream>>>(p);
  else
    gate_gradient_kernel<T, activation, false><<<grid, warps * 32, 0, stream>>>(p);
}
template <class T> void launch_passes(const GateGradientCall& c, const GradientArgs& p, bool is_vectorized, dim3 grid,
                                      cudaStream_t stream) {
  switch (c.activation) {
    case EpilogueActivation::none: launch_pass<T, EpilogueActivation::none>(p, is_vectorized, grid, stream); break;
    case EpilogueActivation::relu: launch_pass<T, EpilogueActivation::relu>(p, is_vectorized, grid, stream); break;
    case EpilogueActivation::gelu: launch_pass<T, EpilogueActivation::gelu>(p, is_vectorized, grid, stream); break;
    case EpilogueActivation::gelu_tanh:
      launch_pass<T, EpilogueActivation::gelu_tanh>(p, is_vectorized, grid, stream);
      break;
    case EpilogueActivation::silu: launch_pass<T, EpilogueActivation::silu>(p, is_vectorized, grid, stream); break;
  }
  if (p.sums == nullptr) return;
  const auto blocks = static_cast<unsigned>(ceil_div(2 * c.n, 256));
  add_sums_kernel<T><<<blocks, 256, 0, stream>>>(p.sums, grid.y, c.n, static_cast<std::uint16_t*>(c.dbu),
                                                 static_cast<std::uint16_t*>(c.dbg));
}

}  // namespace

Status launch(const GateGradientCall& c, const device::DeviceWorkspace& workspace, CUstream_st* stream) {
  if (c.n == 0) return Done{};
  RIDGE_TRY_STATUS(device::check_workspace(workspace, needed_workspace_bytes(c)));
  const bool needs_sums = c.dbu != nullptr || c.dbg != nullptr;
  auto* const sums =
      needs_sums ? reinterpret_cast<float*>(static_cast<char*>(workspace.data) + device::counter_bytes) : nullptr;
  const GradientArgs p{c.m,
                       c.n,
                       c.dy_row_stride,
                       c.h_row_stride,
                       c.dh_row_stride,
                       static_cast<const std::uint16_t*>(c.dy),
                       static_cast<const std::uint16_t*>(c.h),
                       static_cast<std::uint16_t*>(c.dh),
                       sums,
                       sigmoid_coefficients(c.activation)};
  const auto is_vector_aligned = [&](const void* data, std::int64_t line) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && (line % vector_elements == 0 || c.m <= 1);
  };
  const bool is_vectorized = c.n % vector_elements == 0 && is_vector_aligned(c.dy, c.dy_row_stride) &&
                             is_vector_aligned(c.h, c.h_row_stride) && is_vector_aligned(c.dh, c.dh_row_stride);
  const dim3 grid(static_cast<unsigned>(ceil_div(c.n, block_columns)),
                  static_cast<unsigned>(ceil_div(c.m, rows_per_block)));
  if (c.m == 0) {
    for (void* const db : {c.dbu, c.dbg})
      if (db != nullptr) cudaMemsetAsync(db, 0, static_cast<std::size_t>(c.n * operand_bytes(c.dtype)), stream);
  } else if (!SixteenBitFloats::dispatch(c.dtype,
                                         [&]<class T>() { launch_passes<T>(c, p, is_vectorized, grid, stream); })) {
    return dtype_error<SixteenBitFloats>("the gate's gradient", c.dtype);
  }
  return device::to_status(cudaGetLastError(), "launching the gate's gradient");
}

}  // namespace ridge::ops::cuda
