// Rotary position embeddings on a device. A block computes the cosines and sines of a position once and rotates several
// lines that share the position, such as the heads of a token.
#include <cmath>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, max_rotations = 2048;  // Rotations in the shared memory of a block

struct RotaryLaunch {
  DeviceLoopAxes positions, lines;  // Axes along which positions differ, and axes whose points share a position
  const char* x;
  DType position_dtype;
  const void* position_data;
  DevicePacks y;
  std::int64_t pairs, x_stride, y_stride;  // Pairs of a line, and the strides of its elements
  std::int64_t packs, block_packs, block_lines, block_positions, line_groups, position_groups, blocks;
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

// Rotates W pairs, whose elements are in two packs: all first elements and all second ones, or pair after pair.
template <bool interleaved, int W> __device__ void rotate_pairs(const PairRotation* angles, float (&x)[2][W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float& a = interleaved ? x[2 * i / W][2 * i % W] : x[0][i];
    float& b = interleaved ? x[(2 * i + 1) / W][(2 * i + 1) % W] : x[1][i];
    const auto [sine, cosine] = angles[i];
    const float first = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = first;
  }
}

// The elements of a block: packs of lines that share a position.
template <NumberFormat from, int W, bool interleaved> struct BlockItems {
  const RotaryLaunch& run;
  std::int64_t first_position, first_pack, first_line;
  int positions, packs, lines;

  __device__ explicit BlockItems(const RotaryLaunch& launch) : run(launch) {
    const std::int64_t groups = run.position_groups * run.line_groups, chunk = divide(blockIdx.x, groups),
                       group = blockIdx.x - chunk * groups, line_group = divide(group, run.position_groups);
    first_position = (group - line_group * run.position_groups) * run.block_positions;
    first_pack = chunk * run.block_packs;
    first_line = line_group * run.block_lines;
    positions = static_cast<int>(min(run.positions.points - first_position, run.block_positions));
    packs = static_cast<int>(min(run.packs - first_pack, run.block_packs));
    lines = static_cast<int>(min(run.lines.points - first_line, run.block_lines));
  }
  __device__ int count() const { return positions * lines * packs; }

  // A pack of an item: offsets of its first and second elements in x and y, and the number of its first rotation.
  struct Pack {
    std::int64_t x[2], y[2];
    int rotation;
  };
  __device__ Pack find_pack(int item) const {
    const int line_item = item / packs, pack = item - line_item * packs, point = line_item / lines;
    const DeviceOffsets at = offsets_at(run.positions, first_position + point),
                        line_at = offsets_at(run.lines, first_line + line_item - point * lines);
    const std::int64_t pair = (first_pack + pack) * W;
    const std::int64_t elements[2] = {interleaved ? 2 * pair : pair, interleaved ? 2 * pair + W : pair + run.pairs};
    Pack out{.rotation = (point * packs + pack) * W};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      out.x[half] = at.values + line_at.values + elements[half] * run.x_stride;
      out.y[half] = at.result + line_at.result + elements[half] * run.y_stride;
    }
    return out;
  }
  __device__ void compute_rotations(PairRotation* rotations) const {
    for (int i = threadIdx.x; i < positions * packs * W; i += threads) {
      const int point = i / (packs * W);
      const std::int64_t pair = first_pack * W + i - point * packs * W;
      const double position = load_position(run, offsets_at(run.positions, first_position + point).indices);
      rotations[i] = evaluate_sin_cos(position * ::exp2(static_cast<double>(pair) * run.log2_ratio));
    }
  }
};

// A block computes its rotations once, in shared memory, while its first elements are loaded.
template <NumberFormat from, int W, bool interleaved> __global__ void __launch_bounds__(threads)
    rotate_kernel(const RotaryLaunch run) {
  device::start_after_earlier_kernels();
  __shared__ PairRotation rotations[max_rotations];
  const BlockItems<from, W, interleaved> items(run);
  const int count = items.count();
  typename BlockItems<from, W, interleaved>::Pack at{};
  tile::cuda::Pack<from, W> loaded[2];
  const auto load = [&](int item) {
    if (item >= count) return;
    at = items.find_pack(item);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      loaded[half] = tile::cuda::read<from, W, W, CachePolicy::cached>(run.x, at.x[half]);
  };
  load(static_cast<int>(threadIdx.x));
  items.compute_rotations(rotations);
  __syncthreads();
  for (int item = threadIdx.x; item < count; item += threads) {
    float x[2][W];
#pragma unroll
    for (int i = 0; i < 2 * W; ++i) x[i / W][i % W] = loaded[i / W][i % W];
    rotate_pairs<interleaved>(rotations + at.rotation, x);
#pragma unroll
    for (int half = 0; half < 2; ++half) run.y.store(at.y[half], x[half]);
    load(item + threads);
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

// Divides the work among blocks: several positions if each has few elements, few lines if there are many. A thread
// rotates up to four packs, if that leaves enough blocks for the device.
void divide_rotations(RotaryLaunch& run, int width) {
  constexpr std::int64_t max_thread_items = 4, blocks_per_multiprocessor = 8;
  run.block_packs = std::min<std::int64_t>(run.packs, max_rotations / width);
  const std::int64_t chunks = (run.packs + run.block_packs - 1) / run.block_packs;
  const std::int64_t all = run.positions.points * run.lines.points * run.packs,
                     useful_threads = device::multiprocessor_count() * blocks_per_multiprocessor * threads;
  const std::int64_t block_items = threads * std::clamp<std::int64_t>(all / useful_threads, 1, max_thread_items);
  run.block_lines = std::clamp<std::int64_t>(block_items / run.block_packs, 1, run.lines.points);
  // Each thread computes at most one rotation of several positions, because a rotation takes long.
  run.block_positions = std::clamp<std::int64_t>(block_items / (run.block_packs * run.block_lines), 1,
                                                 std::max<std::int64_t>(threads / (run.block_packs * width), 1));
  run.line_groups = (run.lines.points + run.block_lines - 1) / run.block_lines;
  run.position_groups = (run.positions.points + run.block_positions - 1) / run.block_positions;
  run.blocks = chunks * run.line_groups * run.position_groups;
}

template <NumberFormat from, bool interleaved>
cudaError_t launch_rotary(const RotaryLaunch& run, int width, cudaStream_t stream) {
  constexpr int packed = 16 / tile::cuda::size_of<from>;
  return device::launch_dependent(
      width == packed ? rotate_kernel<from, packed, interleaved> : rotate_kernel<from, 1, interleaved>,
      {.blocks = run.blocks, .threads = threads}, stream, run);
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
  divide_rotations(run, width);
  cudaError_t error = cudaSuccess;
  with_format(l.values, [&]<NumberFormat from>() {
    error =
        l.interleaved ? launch_rotary<from, true>(run, width, stream) : launch_rotary<from, false>(run, width, stream);
  });
  return device::to_status(error, "launching a rotation");
}

}  // namespace ridge::ops::cuda
