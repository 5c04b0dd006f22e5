// One pass over dy and h. A thread handles eight adjacent columns (16 bytes) in every eighth row of its block, so
// column
// sums stay in registers. Blocks write their sums to the workspace, and a second kernel adds them in a fixed order. The
// pass is memory-bound: 10 bytes per element at about 18 bytes per cycle and multiprocessor hide 60 instructions.
#include "ridge/ops/gated/gradient.h"

#include <string>

#include "ridge/ops/gated/sm90.h"

namespace ridge::ops::cuda {
namespace {

constexpr int warps = 8, vector = 8, block_columns = 32 * vector;
constexpr std::int64_t rows_of_block = GatedGradient::rows_of_block;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

struct Both {
  float value, slope;
};
// Returns act(g) and act'(g).
template <Activation activation> __device__ Both gate_of(const SigmoidForm& f, float g) {
  if constexpr (activation == Activation::none) return {g, 1};
  if constexpr (activation == Activation::relu) return {g < 0 ? 0 : g, g > 0 ? 1.0F : 0.0F};
  const float s = fminf(g * g, f.most);
  float z = f.p[5];
#pragma unroll
  for (int i = 4; i >= 0; --i) z = fmaf(z, s, f.p[i]);
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-g * z));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
  if constexpr (activation == Activation::gelu) {
    float bell;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bell) : "f"(-0.72134752F * (g * g)));
    return {g * r, fmaf(0.39894228F * g, bell, r)};
  }
  const float rise = fmaf(3 * f.p[1], s, f.p[0]) * 0.69314718F;  // dz / dg in nats
  return {g * r, r * fmaf(g * (1 - r), rise, 1.0F)};
}

template <class T> __device__ float number(std::uint16_t bits) {
  if constexpr (std::is_same_v<T, Bf16>) return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
template <class T> __device__ std::uint16_t rounded(float x) {
  return tile::sm90::to_stored(std::is_same_v<T, Bf16> ? tile::Stored::bf16 : tile::Stored::f16, x);
}

struct Pass {
  std::int64_t m, n, dy_line, h_line, dh_line;
  const std::uint16_t *dy, *h;
  std::uint16_t* dh;
  float* sums;  // [row blocks, 2*n]; null if not needed
  SigmoidForm form;
};

// Reads or writes eight 16-bit elements with one instruction, or the first `count` one by one.
template <bool whole> __device__ void read(std::uint16_t (&to)[vector], const std::uint16_t* from, int count) {
  if constexpr (whole) {
    *reinterpret_cast<uint4*>(to) = __ldcs(reinterpret_cast<const uint4*>(from));
  } else {
#pragma unroll
    for (int i = 0; i < vector; ++i) to[i] = i < count ? from[i] : 0;
  }
}
template <bool whole> __device__ void write(std::uint16_t* to, const std::uint16_t (&from)[vector], int count) {
  if constexpr (whole) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < vector; ++i)
      if (i < count) to[i] = from[i];
  }
}

template <class T, Activation activation, bool whole> __global__ void __launch_bounds__(warps * 32)
    gradient(const __grid_constant__ Pass p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t col = blockIdx.x * static_cast<std::int64_t>(block_columns) + lane * vector;
  const std::int64_t first = blockIdx.y * rows_of_block, last = min(first + rows_of_block, p.m);
  const int count = static_cast<int>(min(static_cast<std::int64_t>(vector), p.n - col));  // Existing columns
  float sum_u[vector] = {}, sum_g[vector] = {};
  if (count > 0) {
#pragma unroll 2
    for (std::int64_t row = first + warp; row < last; row += warps) {
      alignas(16) std::uint16_t dy[vector], u[vector], g[vector];
      read<whole>(dy, p.dy + row * p.dy_line + col, count);
      read<whole>(u, p.h + row * p.h_line + col, count);
      read<whole>(g, p.h + row * p.h_line + p.n + col, count);
#pragma unroll
      for (int i = 0; i < vector; ++i) {
        const float d = number<T>(dy[i]), v = number<T>(u[i]);
        const Both gate = gate_of<activation>(p.form, number<T>(g[i]));
        const float du = d * gate.value, dg = d * v * gate.slope;
        sum_u[i] += du;
        sum_g[i] += dg;
        u[i] = rounded<T>(du);
        g[i] = rounded<T>(dg);
      }
      write<whole>(p.dh + row * p.dh_line + col, u, count);
      write<whole>(p.dh + row * p.dh_line + p.n + col, g, count);
    }
  }
  if (p.sums == nullptr) return;
  __shared__ float shared[warps][2][block_columns + 32];
#pragma unroll
  for (int i = 0; i < vector; ++i) {
    shared[warp][0][lane * (vector + 1) + i] = sum_u[i];
    shared[warp][1][lane * (vector + 1) + i] = sum_g[i];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 2 * block_columns; e += warps * 32) {
    const int half = e / block_columns, c = e % block_columns;
    const std::int64_t at = blockIdx.x * static_cast<std::int64_t>(block_columns) + c;
    if (at >= p.n) continue;
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += shared[w][half][c / vector * (vector + 1) + c % vector];
    p.sums[blockIdx.y * 2 * p.n + half * p.n + at] = sum;
  }
}

template <class T> __global__ void add_sums(const float* sums, std::int64_t blocks, std::int64_t n, std::uint16_t* dbu,
                                            std::uint16_t* dbg) {
  const std::int64_t col = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  std::uint16_t* const db = col < n ? dbu : dbg;
  if (col >= 2 * n || db == nullptr) return;
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += sums[b * 2 * n + col];
  db[col < n ? col : col - n] = rounded<T>(sum);
}

template <class T, Activation activation> void run_pass(const Pass& p, bool whole, dim3 grid, cudaStream_t stream) {
  if (whole)
    gradient<T, activation, true><<<grid, warps * 32, 0, stream>>>(p);
  else
    gradient<T, activation, false><<<grid, warps * 32, 0, stream>>>(p);
}
template <class T> void run_passes(const GatedGradient& c, const Pass& p, bool whole, dim3 grid, cudaStream_t stream) {
  switch (c.activation) {
    case Activation::none: run_pass<T, Activation::none>(p, whole, grid, stream); break;
    case Activation::relu: run_pass<T, Activation::relu>(p, whole, grid, stream); break;
    case Activation::gelu: run_pass<T, Activation::gelu>(p, whole, grid, stream); break;
    case Activation::gelu_tanh: run_pass<T, Activation::gelu_tanh>(p, whole, grid, stream); break;
    case Activation::silu: run_pass<T, Activation::silu>(p, whole, grid, stream); break;
  }
  if (p.sums == nullptr) return;
  const auto blocks = static_cast<unsigned>(up(2 * c.n, 256));
  add_sums<T><<<blocks, 256, 0, stream>>>(p.sums, grid.y, c.n, static_cast<std::uint16_t*>(c.dbu),
                                          static_cast<std::uint16_t*>(c.dbg));
}

}  // namespace

std::optional<std::string> launch(const GatedGradient& c, const Workspace& workspace, CUstream_st* stream) {
  if (c.n == 0) return std::nullopt;
  if (workspace_bytes(c) > workspace.bytes)
    return "workspace: expected " + std::to_string(workspace_bytes(c)) + " bytes, found " +
           std::to_string(workspace.bytes);
  const bool sums_wanted = c.dbu != nullptr || c.dbg != nullptr;
  auto* const sums =
      sums_wanted ? reinterpret_cast<float*>(static_cast<char*>(workspace.data) + counter_bytes) : nullptr;
  const Pass p{c.m,
               c.n,
               c.dy_line,
               c.h_line,
               c.dh_line,
               static_cast<const std::uint16_t*>(c.dy),
               static_cast<const std::uint16_t*>(c.h),
               static_cast<std::uint16_t*>(c.dh),
               sums,
               sigmoid_form(c.activation)};
  const auto even = [&](const void* data, std::int64_t line) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && (line % vector == 0 || c.m <= 1);
  };
  const bool whole = c.n % vector == 0 && even(c.dy, c.dy_line) && even(c.h, c.h_line) && even(c.dh, c.dh_line);
  const dim3 grid(static_cast<unsigned>(up(c.n, block_columns)), static_cast<unsigned>(up(c.m, rows_of_block)));
  if (c.m == 0) {
    for (void* const db : {c.dbu, c.dbg})
      if (db != nullptr) cudaMemsetAsync(db, 0, static_cast<std::size_t>(c.n) * 2, stream);
  } else if (c.dtype == DType::bf16) {
    run_passes<Bf16>(c, p, whole, grid, stream);
  } else {
    run_passes<F16>(c, p, whole, grid, stream);
  }
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess)
    return std::string("launching the gate's gradient: ") + cudaGetErrorString(e);
  return std::nullopt;
}

}  // namespace ridge::ops::cuda
