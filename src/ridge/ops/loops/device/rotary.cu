// Rotary position embeddings on a device. A thread computes the cosines and sines of a few pairs of one position and
// rotates these pairs of several lines that share the position, such as the heads of a token.
#include <cmath>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256;

struct RotaryLaunch {
  DeviceLoopAxes positions, lines;  // Axes along which positions differ, and axes whose points share a position
  const char* x;
  DType position_dtype;
  const void* position_data;
  DevicePacks y;
  std::int64_t pairs, x_stride, y_stride;  // Pairs of a line, and the strides of its elements
  std::int64_t packs, line_groups, lines_per_thread, items;
  double log2_ratio;  // log2 of the ratio of the frequencies of adjacent pairs
};

__device__ double load_position(const RotaryLaunch& run, std::int64_t i) {
  if (run.position_dtype == DType::int32) return static_cast<const std::int32_t*>(run.position_data)[i];
  if (run.position_dtype == DType::int8) return static_cast<const std::int8_t*>(run.position_data)[i];
  return DeviceFloats{run.position_data, run.position_dtype}(i);
}

struct PairRotation {
  float sine, cosine;
};
// Reduces the angle in f64, because positions are large, to [-pi/4, pi/4]; the polynomials are f32 (rotary_body.cc).
__device__ PairRotation evaluate_sin_cos(double angle) {
  constexpr double quarters_per_radian = 0x1.45f306dc9c883p-1, quarter = 0x1.921fb54442d18p0;  // 2/pi, pi/2
  constexpr double rounding = 0x1.8p52;  // Adding it rounds to an integer, whose low bits are those of the sum.
  const double shifted = __fma_rn(angle, quarters_per_radian, rounding);
  const int quarters = __double2loint(shifted);
  const auto r = static_cast<float>(__fma_rn(rounding - shifted, quarter, angle));
  const float s = r * r;
  const float sine = r + r * s * (-0.166666538f + s * (0.00833209977f - s * 0.000195065106f));
  const float cosine = 1 - 0.5f * s + s * s * (0.0416666418f + s * (-0.00138871302f + s * 2.44120856e-05f));
  const bool swaps = (quarters & 1) != 0;
  const float a = swaps ? cosine : sine, b = swaps ? sine : cosine;
  return {(quarters & 2) != 0 ? -a : a, ((quarters + 1) & 2) != 0 ? -b : b};
}

template <int W> struct PairAngles {
  PairRotation pairs[W];
  __device__ PairAngles(const RotaryLaunch& run, double position, std::int64_t first) {
#pragma unroll
    for (int i = 0; i < W; ++i)
      pairs[i] = evaluate_sin_cos(position * ::exp2(static_cast<double>(first + i) * run.log2_ratio));
  }
};

// Rotates W pairs, whose elements are in two packs: all first elements and all second ones, or pair after pair.
template <bool interleaved, int W> __device__ void rotate_pairs(const PairAngles<W>& angles, float (&x)[2][W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float& a = interleaved ? x[2 * i / W][2 * i % W] : x[0][i];
    float& b = interleaved ? x[(2 * i + 1) / W][(2 * i + 1) % W] : x[1][i];
    const auto [sine, cosine] = angles.pairs[i];
    const float first = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = first;
  }
}

template <NumberFormat from, int W, bool interleaved> __global__ void __launch_bounds__(threads)
    rotate_kernel(const RotaryLaunch run) {
  const std::int64_t item = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= run.items) return;
  const std::int64_t group = divide(item, run.packs), point = divide(group, run.line_groups);
  const std::int64_t pair = (item - group * run.packs) * W;
  const DeviceOffsets at = offsets_at(run.positions, point);
  const PairAngles<W> angles(run, load_position(run, at.indices), pair);
  const std::int64_t elements[2] = {interleaved ? 2 * pair : pair, interleaved ? 2 * pair + W : pair + run.pairs};
  const std::int64_t begin = (group - point * run.line_groups) * run.lines_per_thread,
                     end = min(begin + run.lines_per_thread, run.lines.points);
  for (std::int64_t line = begin; line < end; ++line) {
    const DeviceOffsets line_at = offsets_at(run.lines, line);
    float x[2][W];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto pack = tile::cuda::read<from, W, W, CachePolicy::cached>(
          run.x, at.values + line_at.values + elements[half] * run.x_stride);
#pragma unroll
      for (int i = 0; i < W; ++i) x[half][i] = pack[i];
    }
    rotate_pairs<interleaved>(angles, x);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      run.y.store(at.result + line_at.result + elements[half] * run.y_stride, x[half]);
  }
}

// Returns how many pairs a thread rotates: those with 16 bytes of first elements, or 1.
int find_pack_width(const RotaryLoops& l, std::span<void* const> data) {
  const int width = pack_width(l.values);
  if (l.axis.values != 1 || l.axis.result != 1 || l.axis.extent / 2 % width != 0) return 1;
  std::vector<std::int64_t> x_distances, y_distances;
  for (const LoopAxis& axis : l.axes) {
    x_distances.push_back(axis.extent > 1 ? axis.values : 0);
    y_distances.push_back(axis.extent > 1 ? axis.result : 0);
  }
  return fits_packs(l.values, data[0], x_distances, width) && fits_packs(l.result, data[2], y_distances, width) ? width
                                                                                                                : 1;
}

// Divides the lines of a position among threads: each takes several if the others still fill the device.
void divide_lines(RotaryLaunch& run) {
  constexpr std::int64_t max_lines_per_thread = 8, blocks_per_multiprocessor = 8;
  const std::int64_t useful_threads = device::multiprocessor_count() * blocks_per_multiprocessor * threads;
  const std::int64_t all = run.positions.points * run.packs * run.lines.points;
  run.lines_per_thread = std::clamp<std::int64_t>(all / useful_threads, 1, max_lines_per_thread);
  run.line_groups = (run.lines.points + run.lines_per_thread - 1) / run.lines_per_thread;
  run.items = run.positions.points * run.packs * run.line_groups;
}

template <NumberFormat from, bool interleaved>
void launch_rotary(const RotaryLaunch& run, int width, cudaStream_t stream) {
  constexpr int packed = 16 / tile::cuda::size_of<from>;
  (width == packed ? rotate_kernel<from, packed, interleaved>
                   : rotate_kernel<from, 1, interleaved>)<<<blocks_for(run.items, threads), threads, 0, stream>>>(run);
}

}  // namespace

Status run_loops(const RotaryLoops& l, std::span<void* const> data, CUstream_st* stream) {
  std::vector<LoopAxis> positions, lines;
  for (const LoopAxis& axis : l.axes) (axis.indices != 0 ? positions : lines).push_back(axis);
  if (count_points(l.axes) * l.axis.extent == 0) return Done{};
  const int width = find_pack_width(l, data);
  RotaryLaunch run{.positions = make_device_axes(merge_loop_axes(positions)),
                   .lines = make_device_axes(merge_loop_axes(lines)),
                   .x = static_cast<const char*>(data[0]),
                   .position_dtype = l.positions,
                   .position_data = data[1],
                   .y = {static_cast<char*>(data[2]), l.result},
                   .pairs = l.axis.extent / 2,
                   .x_stride = l.axis.values,
                   .y_stride = l.axis.result,
                   .packs = l.axis.extent / 2 / width,
                   .log2_ratio = -2 * std::log2(l.base) / static_cast<double>(l.axis.extent)};
  divide_lines(run);
  with_format(l.values, [&]<NumberFormat from>() {
    l.interleaved ? launch_rotary<from, true>(run, width, stream) : launch_rotary<from, false>(run, width, stream);
  });
  return device::to_status(cudaGetLastError(), "launching a rotation");
}

}  // namespace ridge::ops::cuda
