// The passes before and after attention's backward kernel (backward.h). The first computes two numbers per row (log2 of
// the sum of exponentials, and delta) from o, dO and lse, and clears the sums of dQ. The second rounds dQ. Each block
// handles one row tile of a head. Both are memory-bound: for a head of 4096 rows of 128 bf16 elements the first reads
// 2.1 MB and writes 2.1 MB of zeros, the second reads 2.1 MB and writes 1.0 MB.
#pragma once

#include "ridge/ops/attention/backward.h"
#include "ridge/tile/sm90/step_operations.h"

namespace ridge::ops::cuda {

struct HeadsPointer {
  void* data = nullptr;
  HeadsLayout strides = {};
};
template <class T> TILE_FN T* row_pointer(const HeadsPointer& x, int outer, int head, std::int64_t row) {
  return static_cast<T*>(x.data) + outer * x.strides.outer + head * x.strides.head + row * x.strides.row;
}

struct BackwardShape {
  int heads = 1, rows = 0, width = 0, tiles_per_head = 0;
};

struct WordPair {
  std::uint32_t a, b;
};

constexpr int backward_pass_threads = 256;

// The grid is [row tiles, heads, outer]. Rows without visible keys and rows after the last row get weights of 0.
template <class Kernel> __global__ void __launch_bounds__(backward_pass_threads)
    prepare_backward(BackwardShape x, HeadsPointer o, HeadsPointer dout, const float* lse, float* row_stats, float* dq,
                     int* add_counts) {
  using T = typename Kernel::Q::type;
  constexpr int q = Kernel::config.q, d = Kernel::config.d, lanes = 8, elements_per_load = 16 / sizeof(T);
  constexpr float log2_e = 1.4426950408889634F;
  const int tile = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            outer = static_cast<int>(blockIdx.z);
  const std::int64_t matrix = std::int64_t{outer} * x.heads + head, tile_index = matrix * x.tiles_per_head + tile;
  auto* const zeros = reinterpret_cast<float4*>(dq + tile_index * (q * d));
  for (int i = static_cast<int>(threadIdx.x); i < q * d / 4; i += backward_pass_threads) zeros[i] = float4{0, 0, 0, 0};
  if (add_counts != nullptr && threadIdx.x < Kernel::config.consumers)
    add_counts[tile_index * Kernel::config.consumers + threadIdx.x] = 0;
  for (int r = static_cast<int>(threadIdx.x) / lanes; r < q; r += backward_pass_threads / lanes) {
    const int row = tile * q + r;
    float sum = 0;
    if (row < x.rows) {
      const T* const a = row_pointer<T>(o, outer, head, row);
      const T* const b = row_pointer<T>(dout, outer, head, row);
      for (int c = static_cast<int>(threadIdx.x) % lanes * elements_per_load; c < x.width;
           c += lanes * elements_per_load) {
        const uint4 words_a = *reinterpret_cast<const uint4*>(a + c), words_b = *reinterpret_cast<const uint4*>(b + c);
        for (const auto& [word_a, word_b] : {WordPair{words_a.x, words_b.x}, WordPair{words_a.y, words_b.y},
                                             WordPair{words_a.z, words_b.z}, WordPair{words_a.w, words_b.w}}) {
          const float2 u = tile::sm90::unpack_pair<T>(word_a), w = tile::sm90::unpack_pair<T>(word_b);
          sum = fmaf(u.x, w.x, fmaf(u.y, w.y, sum));
        }
      }
    }
    for (int distance = 1; distance < lanes; distance *= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (threadIdx.x % lanes != 0) continue;
    const float row_lse = row < x.rows ? lse[matrix * x.rows + row] * log2_e : INFINITY;
    row_stats[tile_index * (2 * q) + r] = row_lse == -INFINITY ? INFINITY : row_lse;
    row_stats[tile_index * (2 * q) + q + r] = row_lse == -INFINITY ? 0 : sum;
  }
}

// The masked keys are those before `visible_begin` and from `visible_end` on. No item of the backward kernel covers
// them, so `clear_masked_keys` stores zeros as their gradients.
struct MaskedKeys {
  int visible_begin = 0, visible_end = 0, keys = 0, width = 0;
};
// The grid is [any number of blocks, key heads, outer].
template <class T> __global__ void __launch_bounds__(backward_pass_threads)
    clear_masked_keys(MaskedKeys x, HeadsPointer dk, HeadsPointer dv) {
  constexpr int per_unit = 16 / sizeof(T);
  const int units = x.width / per_unit;
  const std::int64_t count = std::int64_t{x.visible_begin + x.keys - x.visible_end} * units;
  for (std::int64_t i = std::int64_t{blockIdx.x} * backward_pass_threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * backward_pass_threads) {
    const std::int64_t masked_index = i / units, row = masked_index < x.visible_begin
                                                           ? masked_index
                                                           : masked_index - x.visible_begin + x.visible_end;
    for (const HeadsPointer& gradient : {dk, dv})
      *reinterpret_cast<uint4*>(
          row_pointer<T>(gradient, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), row) +
          i % units * per_unit) = uint4{0, 0, 0, 0};
  }
}

// The grid is [row tiles, heads, outer]. Each thread reads the sums in the order in which the same thread of the
// backward kernel wrote them.
template <class Kernel> __global__ void __launch_bounds__(backward_pass_threads)
    finish_backward(BackwardShape x, const float* sums, HeadsPointer dq, float scale) {
  using T = typename Kernel::Q::type;
  constexpr int q = Kernel::config.q, d = Kernel::config.d, size = Kernel::DQ::size;
  static_assert(Kernel::config.consumers * 128 == backward_pass_threads);
  __shared__ alignas(1024) T staged_rows[q * d];
  const int tile = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            outer = static_cast<int>(blockIdx.z);
  const int group = static_cast<int>(threadIdx.x) / 128, thread = static_cast<int>(threadIdx.x) % 128;
  const std::int64_t tile_index = (std::int64_t{outer} * x.heads + head) * x.tiles_per_head + tile;
  const float* const source = sums + tile_index * (q * d) + group * (size * 128) + thread * 4;
  std::uint32_t v[size / 2];
#pragma unroll
  for (int i = 0; i < size / 4; ++i) {
    const float4 four_sums = *reinterpret_cast<const float4*>(source + i * 512);
    v[2 * i] = tile::sm90::pack_pair<T>(four_sums.x * scale, four_sums.y * scale);
    v[2 * i + 1] = tile::sm90::pack_pair<T>(four_sums.z * scale, four_sums.w * scale);
  }
  if constexpr (Kernel::along_rows) {
    constexpr int width = Kernel::splits_columns ? d / Kernel::config.consumers : d;
    tile::sm90::copy_rows<q, width>(tile::sm90::shared_address(staged_rows), Kernel::splits_columns ? 0 : group * 64,
                                    Kernel::splits_columns ? group * width : 0, v);
  } else {
    tile::sm90::copy_transposed<q>(tile::sm90::shared_address(staged_rows) + group * q * 128, v);
  }
  __syncthreads();
  constexpr int per_unit = 16 / sizeof(T), swizzled = tile::sm90::swizzle_elements<T>;
  constexpr int units = d / per_unit;  // Number of 16-byte units in a row
  for (int i = static_cast<int>(threadIdx.x); i < q * units; i += backward_pass_threads) {
    const int r = i / units, unit = i % units, row = tile * q + r;
    if (row >= x.rows || unit * per_unit >= x.width) continue;
    *reinterpret_cast<uint4*>(row_pointer<T>(dq, outer, head, row) + unit * per_unit) = *reinterpret_cast<const uint4*>(
        staged_rows + unit / 8 * (q * swizzled) + r * swizzled + (unit % 8 ^ r % 8) * per_unit);
  }
}

}  // namespace ridge::ops::cuda
