// Products of up to 64 rows of activations with narrow weights. A block has a tile of lines of weights and a part of
// k. One warp requests boxes of weights from the copy engine, three warps load the activations of the same stage of k,
// and eight warps convert weights in registers and multiply them on tensor cores (mma.sync m16n8k16, sums in f32). The
// order of k is the same permutation for weights and activations, so that the weights of a thread are contiguous in
// memory and the activations are in shared memory in the order of the threads. The warps of the same lines add their
// sums in shared memory, and so do the blocks of a cluster that divide k, always in the same order.
#include <algorithm>
#include <utility>

#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/shared_memory.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/ops/product/strided.h"
#include "ridge/ops/product/weight_only/decode.h"
#include "ridge/ops/product/weight_only/multiply.h"
#include "ridge/tile/sm90/tma.h"
// Must follow device_math.h, which defines RIDGE_FN.
#include "ridge/tile/cuda/prefetch.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index;
namespace sm90 = tile::sm90;
using Tile = WeightOnlyTile;

constexpr int warp_threads = 32, multiplying_threads = Tile::multiplying_warps * warp_threads, activation_warps = 3,
              activation_threads = activation_warps * warp_threads,
              block_threads = multiplying_threads + warp_threads + activation_threads;
constexpr int unit = 8;  // Adjacent elements of k that a thread multiplies together: 16 bytes of activations
constexpr int steps_per_unit = 2, parts_units = Tile::warp_k / 4 / unit;
constexpr int added_barrier = 1;  // The warps that multiply

struct NarrowWeights {
  CUtensorMap map;
  const std::uint8_t* data;
  Index line_bytes, batch_bytes;  // Distances of lines and matrices
  Index stored_bytes;             // Bytes of a line
  int lines;
  bool by_engine, are_constant;
};
struct Activations {
  const std::uint16_t* data;
  Index row_stride, k_stride, batch_stride;
  int rows;
  bool in_units;  // True if units of eight elements have aligned addresses
};
struct WeightOnlyArgs {
  NarrowWeights weights;
  Activations x;
  Tile tile;
  Index k;
  int stages, splits;           // Stages of k, and blocks of a cluster that divide them
  int line_tiles, items, ring;  // Tiles of lines, those of all products, stages of the ring
  bool weights_are_rows;        // True if the lines of weights are rows of D
  StridedOutput d;
};

// The item of a block, and its stages of k.
struct BlockWork {
  int line_tile = 0, batch = 0, first = 0, end = 0;
};
TILE_FN BlockWork work_of(const WeightOnlyArgs& p, int item) {
  const int rank = static_cast<int>(blockIdx.x) % p.splits;
  const auto edge = [&](int i) { return static_cast<int>(Index{p.stages} * i / p.splits); };
  return {item % p.line_tiles, item / p.line_tiles, edge(rank), edge(rank + 1)};
}
template <class Work> TILE_FN void for_each_item(const WeightOnlyArgs& p, const Work& work) {
  for (int item = static_cast<int>(blockIdx.x) / p.splits; item < p.items;
       item += static_cast<int>(gridDim.x) / p.splits)
    work(work_of(p, item));
}

struct RingPosition {
  int slot = 0;
  std::uint32_t phase = 0;
  TILE_FN void advance(int slots) {
    if (++slot < slots) return;
    slot = 0;
    phase ^= 1;
  }
};

template <DType weights, class T, int groups> struct WeightOnlyKernel {
  static constexpr WeightBox box = weight_box(weights);
  static constexpr int box_parts = box.k / Tile::warp_k;
  static constexpr int row_tiles = Tile::warp_lines / 16;
  static constexpr int unit_bytes =
      groups * warp_threads * 16;  // A unit of all threads of a warp and all groups of rows
  static constexpr int part_bytes = parts_units * unit_bytes;

  const WeightOnlyArgs& p;
  std::uint8_t* const raw;
  const int weight_bytes, stage_bytes, stage_k;

  TILE_FN WeightOnlyKernel(const WeightOnlyArgs& args, std::uint8_t* shared)
      : p(args),
        raw(shared),
        weight_bytes(args.tile.weight_bytes(box)),
        stage_bytes(args.tile.stage_bytes(box, groups)),
        stage_k(args.tile.stage_k(box)) {}

  TILE_FN std::uint8_t* slot_at(int slot) const { return raw + slot * stage_bytes; }
  TILE_FN float* sums() const { return reinterpret_cast<float*>(raw + p.ring * stage_bytes); }
  TILE_FN std::uint32_t barrier(int i) const {
    return sm90::shared_address(raw + p.ring * stage_bytes + p.tile.sum_bytes(groups)) + i * 8;
  }
  TILE_FN std::uint32_t full(int slot) const { return barrier(slot); }
  TILE_FN std::uint32_t empty(int slot) const { return barrier(p.ring + slot); }

  TILE_FN void init_barriers() const {
    for (int i = 0; i < p.ring; ++i) {
      sm90::init_mbarrier(full(i), 1 + activation_threads);
      sm90::init_mbarrier(empty(i), Tile::multiplying_warps);
    }
    sm90::publish_mbarrier_init();
  }

  // Loads the weights of all stages: the first thread by the copy engine or, from other addresses, 32 threads by bytes.
  TILE_FN void load_weights() const {
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    if (!p.weights.are_constant) sm90::wait_for_earlier_kernels();
    RingPosition at{0, 1};
    for_each_item(p, [&](const BlockWork& work) {
      for (int stage = work.first; stage < work.end; ++stage) {
        sm90::wait_mbarrier(empty(at.slot), at.phase);
        if (!p.weights.by_engine) {
          copy_weights(slot_at(at.slot), work, stage);
          __syncwarp();
        }
        if (lane == 0) {
          if (p.weights.by_engine) request_weights(at.slot, work, stage);
          sm90::arrive_mbarrier(full(at.slot));
        }
        at.advance(p.ring);
      }
    });
  }
  TILE_FN void request_weights(int slot, const BlockWork& work, int stage) const {
    const int boxes = p.tile.boxes(box), box_bytes = p.tile.lines * box.line_bytes;
    constexpr int unit_bytes_of_map = box.is_swizzled ? 1 : 4;
    sm90::expect_bytes(full(slot), boxes * box_bytes);
    for (int i = 0; i < boxes; ++i)
      sm90::load_box(sm90::shared_address(slot_at(slot) + i * box_bytes), &p.weights.map, tile::evict_first,
                     {(stage * boxes + i) * (box.line_bytes / unit_bytes_of_map), work.line_tile * p.tile.lines,
                      p.weights.batch_bytes == 0 ? 0 : work.batch},
                     full(slot));
  }
  TILE_FN void copy_weights(std::uint8_t* to, const BlockWork& work, int stage) const {
    const int boxes = p.tile.boxes(box), lines = p.tile.lines, box_bytes = lines * box.line_bytes;
    const std::uint8_t* const from = p.weights.data + work.batch * p.weights.batch_bytes;
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x) % warp_threads; i < boxes * box_bytes; i += warp_threads) {
      const int line = i % box_bytes / box.line_bytes, byte = i % box.line_bytes;
      const Index row = Index{work.line_tile} * lines + line,
                  at = Index{stage * boxes + i / box_bytes} * box.line_bytes + byte;
      const bool exists = row < p.weights.lines && at < p.weights.stored_bytes;
      const int place = box.is_swizzled ? byte ^ (line & 7) * 16 : byte;
      to[i - byte + place] = exists ? from[row * p.weights.line_bytes + at] : std::uint8_t{0};
    }
  }

  // Loads the activations of all stages; the slots of the ring limit how many are in flight. Units of k beyond the last
  // element are filled up with zeros; rows that do not exist keep any values, which only the sums of these rows depend
  // on.
  TILE_FN void load_activations() const {
    const int thread = static_cast<int>(threadIdx.x) - multiplying_threads - warp_threads;
    sm90::wait_for_earlier_kernels();
    const int units_log2 = __ffs(stage_k / unit) - 1, all = p.x.rows << units_log2, units_mask = (1 << units_log2) - 1;
    RingPosition at{0, 1};
    for_each_item(p, [&](const BlockWork& work) {
      const std::uint16_t* const from = p.x.data + work.batch * p.x.batch_stride;
      for (int stage = work.first; stage < work.end; ++stage) {
        std::uint8_t* const to = slot_at(at.slot) + weight_bytes;
        sm90::wait_mbarrier(empty(at.slot), at.phase);
        for (int place = thread; place < all; place += activation_threads)
          load_unit(to + offset_of_unit(place >> units_log2, place & units_mask),
                    from + (place >> units_log2) * p.x.row_stride,
                    Index{stage} * stage_k + (place & units_mask) * unit);
        if (p.x.in_units)
          sm90::arrive_after_copies(full(at.slot));
        else
          sm90::arrive_mbarrier(full(at.slot));
        at.advance(p.ring);
      }
    });
  }
  // Loads eight elements of a row from k on, without waiting if their address is aligned.
  TILE_FN void load_unit(std::uint8_t* to, const std::uint16_t* row, Index k) const {
    if (p.x.in_units) {
      const Index left = p.k - k;
      const int elements = static_cast<int>(left < 0 ? 0 : min(left, Index{unit}));
      return tile::cuda::copy_async<16>(sm90::shared_address(to),
                                        reinterpret_cast<const char*>(elements > 0 ? row + k : row),
                                        static_cast<unsigned>(elements * 2));
    }
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Index first = k + 2 * i;
      const std::uint32_t low = first < p.k ? row[first * p.x.k_stride] : 0,
                          high = first + 1 < p.k ? row[(first + 1) * p.x.k_stride] : 0;
      words[i] = low | high << 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
  // Returns a unit in the order of `decode_unit`.
  TILE_FN static uint4 arrange(const uint4& x) {
    if constexpr (dtype_bits(weights) == 8) return x;
    return {select_bytes<0x5410>(x.x, x.z), select_bytes<0x7632>(x.x, x.z), select_bytes<0x5410>(x.y, x.w),
            select_bytes<0x7632>(x.y, x.w)};
  }
  // Returns the offset of unit `index` of a row in a stage: by part, unit of the part, group of rows and thread.
  TILE_FN static int offset_of_unit(unsigned row, unsigned index) {
    constexpr int box_units = box.k / unit, thread_units = box_units / 4;
    const unsigned quarter = index % box_units / thread_units, of_thread = index % thread_units,
                   part = index / box_units * box_parts + of_thread / parts_units;
    return static_cast<int>(part * part_bytes + of_thread % parts_units * unit_bytes + row / 8 * warp_threads * 16 +
                            (row % 8 * 4 + quarter) * 16);
  }

  using Sums = float[row_tiles][groups][4];

  TILE_FN void multiply() const {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads, line_warps = p.tile.lines / Tile::warp_lines,
              first_line = warp % line_warps * Tile::warp_lines, k_warp = warp / line_warps;
    RingPosition at;
    bool has_waited = false;
    for_each_item(p, [&](const BlockWork& work) {
      Sums acc = {};
      for (int stage = work.first; stage < work.end; ++stage) {
        sm90::wait_mbarrier(full(at.slot), at.phase);
        for (int part = k_warp; part < stage_k / Tile::warp_k; part += p.tile.k_warps())
          multiply_part(acc, slot_at(at.slot), first_line, part);
        __syncwarp();
        if (threadIdx.x % warp_threads == 0) sm90::arrive_mbarrier(empty(at.slot));
        at.advance(p.ring);
      }
      for (int other = 0; other < p.tile.k_warps(); ++other) {
        if (other == k_warp) add_sums(acc, first_line, other > 0);
        sm90::sync_threads(added_barrier, multiplying_threads);
      }
      if (!has_waited) sm90::wait_for_earlier_kernels();
      has_waited = true;
      if (p.splits > 1) return;
      store_runs<false>(work, 0);
      sm90::sync_threads(added_barrier, multiplying_threads);
    });
  }

  TILE_FN void multiply_part(Sums& acc, const std::uint8_t* slot, int first_line, int part) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_threads, line = lane / 4;
    const std::uint8_t* const lines = slot + part / box_parts * p.tile.lines * box.line_bytes;
    const std::uint8_t* const x = slot + weight_bytes + part * part_bytes + lane * 16;
    const auto address_of = [&](int r, int half) {
      return lines + (first_line + r * 16 + half * 8 + line) * box.line_bytes;
    };
    WeightPart<weights> loaded[row_tiles][2];
    bool has_rare_scales = false;
    if constexpr (is_block_scaled(weights)) {
      std::uint32_t largest = 0;
#pragma unroll
      for (int r = 0; r < row_tiles; ++r)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          largest = max(largest, loaded[r][half].load_scaled(address_of(r, half), part % box_parts));
      has_rare_scales = __any_sync(~0u, largest >= BlockFactors<weights>::rare_limit) != 0;
      if (has_rare_scales)
#pragma unroll
        for (int i = 0; i < row_tiles * 2; ++i)
#pragma unroll
          for (auto& factors : loaded[i / 2][i % 2].factors) factors.set_rare_factors();
    }
#pragma unroll
    for (int u = 0; u < parts_units; ++u) {
      FourPairs decoded[row_tiles][2];
#pragma unroll
      for (int r = 0; r < row_tiles; ++r)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if constexpr (!is_block_scaled(weights))
            if (u % 2 == 0) loaded[r][half].load_half(address_of(r, half), line, u / 2);
          decoded[r][half] = loaded[r][half].template decode_unit<T>(u);
        }
      if constexpr (dtype_bits(weights) == 4) {
        if (has_rare_scales)
#pragma unroll
          for (int i = 0; i < row_tiles * 2; ++i)
            loaded[i / 2][i % 2].multiply_by_second_factor(decoded[i / 2][i % 2], u);
      }
#pragma unroll
      for (int group = 0; group < groups; ++group) {
        const uint4 columns = arrange(*reinterpret_cast<const uint4*>(x + u * unit_bytes + group * warp_threads * 16));
        const std::uint32_t words[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
        for (int step = 0; step < steps_per_unit; ++step)
#pragma unroll
          for (int r = 0; r < row_tiles; ++r)
            add_product(acc[r][group], decoded[r][0].pair + step * 2, decoded[r][1].pair + step * 2, words + step * 2);
      }
    }
  }
  // Adds the product of 16 lines of weights x 16 elements of k with eight columns of activations.
  TILE_FN static void add_product(float (&sum)[4], const std::uint32_t* upper, const std::uint32_t* lower,
                                  const std::uint32_t* columns) {
    if constexpr (std::is_same_v<T, Bf16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(upper[0]), "r"(lower[0]), "r"(upper[1]), "r"(lower[1]), "r"(columns[0]), "r"(columns[1]));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(upper[0]), "r"(lower[0]), "r"(upper[1]), "r"(lower[1]), "r"(columns[0]), "r"(columns[1]));
  }

  // Returns the place of the sum of a line of weights and a row of activations, which are contiguous as in D.
  TILE_FN int index_of_sum(int line, int row) const {
    return p.weights_are_rows ? line * (groups * 8 + 4) + row : row * (p.tile.lines + 4) + line;
  }
  TILE_FN void add_sums(const Sums& acc, int first_line, bool add) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
#pragma unroll
    for (int r = 0; r < row_tiles; ++r)
#pragma unroll
      for (int group = 0; group < groups; ++group)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& sum =
              sums()[index_of_sum(first_line + r * 16 + i / 2 * 8 + lane / 4, group * 8 + lane % 4 * 2 + i % 2)];
          sum = add ? sum + acc[r][group][i] : acc[r][group][i];
        }
  }
  // Applies the epilogue to runs of eight sums and stores them. The blocks of a cluster add their sums and divide the
  // runs among them.
  template <bool of_cluster> TILE_FN void store_runs(const BlockWork& work, int rank) const {
    const int lines = p.weights_are_rows ? p.tile.lines : p.x.rows,
              line_runs = p.weights_are_rows ? groups : p.tile.lines / 8;
    const Index first = Index{work.line_tile} * p.tile.lines;
    const int step = (of_cluster ? p.splits : 1) * multiplying_threads;
    for (int i = rank * multiplying_threads + static_cast<int>(threadIdx.x); i < lines * line_runs; i += step) {
      const int line = i / line_runs, in_line = i % line_runs * 8;
      using Run = sm90::EpilogueRun<8, sm90::RunDirection::row>;
      const Run run = p.weights_are_rows ? Run::in(p.d, first + line, in_line, work.batch)
                                         : Run::in(p.d, line, first + in_line, work.batch);
      if (run.inside_count == 0) continue;
      const float* const from =
          sums() + (p.weights_are_rows ? index_of_sum(line, in_line) : index_of_sum(in_line, line));
      sm90::EpilogueVector<8> sum = {};
#pragma unroll
      for (int q = 0; q < 8; q += 4) {
        float4 four = *reinterpret_cast<const float4*>(from + q);
        if constexpr (of_cluster) {
          four = sm90::read_shared_of_block<float4>(sm90::shared_address(from + q), 0);
#pragma unroll 1
          for (int block = 1; block < p.splits; ++block) {
            const float4 other = sm90::read_shared_of_block<float4>(sm90::shared_address(from + q), block);
            four = {four.x + other.x, four.y + other.y, four.z + other.z, four.w + other.w};
          }
        }
        sum.v[q] = four.x;
        sum.v[q + 1] = four.y;
        sum.v[q + 2] = four.z;
        sum.v[q + 3] = four.w;
      }
      sm90::apply_and_store(p.d, sum, run);
    }
  }
};

template <DType weights, class T, int groups> __global__ void __launch_bounds__(block_threads, 1)
    weight_only_kernel(const __grid_constant__ WeightOnlyArgs p) {
  extern __shared__ __align__(1024) std::uint8_t raw[];
  const WeightOnlyKernel<weights, T, groups> kernel(p, raw);
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  if (threadIdx.x == 0) kernel.init_barriers();
  __syncthreads();
  sm90::let_next_kernel_start();
  if (warp < Tile::multiplying_warps)
    kernel.multiply();
  else if (warp == Tile::multiplying_warps)
    kernel.load_weights();
  else
    kernel.load_activations();
  if (p.splits == 1) return;
  // Each cluster has one item.
  __syncwarp();
  sm90::cluster_sync();
  if (warp < Tile::multiplying_warps)
    kernel.template store_runs<true>(work_of(p, static_cast<int>(blockIdx.x) / p.splits), sm90::cluster_rank());
  __syncwarp();
  sm90::cluster_sync();
}

template <DType weights, class T, int groups>
cudaError_t launch_kernel(const WeightOnlyArgs& args, const MatmulPlan& plan, cudaStream_t stream) {
  constexpr auto kernel = weight_only_kernel<weights, T, groups>;
  if (const cudaError_t e = device::allow_shared_memory<kernel>(tile::max_shared_bytes); e != cudaSuccess) return e;
  const int bytes = args.ring * args.tile.stage_bytes(weight_box(weights), groups) + args.tile.sum_bytes(groups) +
                    Tile::barrier_bytes;
  const device::LaunchShape shape{.blocks = plan.blocks,
                                  .threads = block_threads,
                                  .shared_bytes = static_cast<std::size_t>(bytes),
                                  .cluster_blocks = plan.splits};
  return device::launch_dependent(kernel, shape, stream, args);
}
template <DType weights, class T>
cudaError_t launch_rows(const WeightOnlyArgs& args, const MatmulPlan& plan, cudaStream_t stream) {
  switch (count_row_groups(args.x.rows)) {
    case 1: return launch_kernel<weights, T, 1>(args, plan, stream);
    case 2: return launch_kernel<weights, T, 2>(args, plan, stream);
    case 4: return launch_kernel<weights, T, 4>(args, plan, stream);
    default: return launch_kernel<weights, T, 8>(args, plan, stream);
  }
}
cudaError_t launch_dtypes(DType weights, DType x, const WeightOnlyArgs& args, const MatmulPlan& plan,
                          cudaStream_t stream) {
  const bool is_bf16 = x == DType::bf16;
  switch (weights) {
    case DType::int8:
      return is_bf16 ? launch_rows<DType::int8, Bf16>(args, plan, stream)
                     : launch_rows<DType::int8, F16>(args, plan, stream);
    case DType::e4m3:
      return is_bf16 ? launch_rows<DType::e4m3, Bf16>(args, plan, stream)
                     : launch_rows<DType::e4m3, F16>(args, plan, stream);
    case DType::mxfp8: return launch_rows<DType::mxfp8, Bf16>(args, plan, stream);
    case DType::mxfp4: return launch_rows<DType::mxfp4, Bf16>(args, plan, stream);
    default: return launch_rows<DType::nvfp4, Bf16>(args, plan, stream);
  }
}

// Block-scaled lines are loaded as 32-bit elements, others as bytes.
bool encode_weights(NarrowWeights& to, const TileOperand& x, std::int64_t batch, const Tile& tile) {
  const WeightBox box = weight_box(x.dtype);
  const auto map_elements = [&](std::int64_t elements) {
    return box.is_swizzled ? elements : stored_bytes(x.dtype, elements) / 4;
  };
  // The engine validates the stride of a single line, too.
  const std::int64_t line_stride =
      x.extent > 1 ? map_elements(x.line_stride) : ceil_div(map_elements(x.k), std::int64_t{16}) * 16;
  const device::MatrixBatch lines{const_cast<void*>(x.data),       map_elements(x.k), x.extent,
                                  x.batch_stride == 0 ? 1 : batch, line_stride,       map_elements(x.batch_stride)};
  const device::TensorMapBox map_box{box.is_swizzled ? box.line_bytes : box.line_bytes / 4, tile.lines};
  return device::encode_tensor_map(to.map, lines, box.is_swizzled ? DType::e4m3 : DType::tf32, map_box,
                                   box.is_swizzled);
}

}  // namespace

Status multiply_weight_only(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan,
                            cudaStream_t stream) {
  const bool weights_are_rows = is_narrow_weight(t.a.dtype);
  const TileOperand &w = weights_are_rows ? t.a : t.b, &x = weights_are_rows ? t.b : t.a;
  WeightOnlyArgs args{};
  args.tile = weight_only_tiles[plan.config];
  args.weights.data = static_cast<const std::uint8_t*>(w.data);
  args.weights.line_bytes = stored_bytes(w.dtype, w.line_stride);
  args.weights.batch_bytes = stored_bytes(w.dtype, w.batch_stride);
  args.weights.stored_bytes = stored_bytes(w.dtype, t.size.k);
  args.weights.lines = static_cast<int>(w.extent);
  args.weights.are_constant = weights_are_rows ? t.constant_a : t.constant_b;
  args.weights.by_engine = t.size.k > 0 && can_engine_read_weights(w, t.batch);
  if (args.weights.by_engine && !encode_weights(args.weights, w, t.batch, args.tile)) return device::tensor_map_error();
  const bool along_k = x.major == tile::Major::k;
  args.x = {static_cast<const std::uint16_t*>(x.data),
            along_k ? x.line_stride : 1,
            along_k ? 1 : x.line_stride,
            x.batch_stride,
            static_cast<int>(x.extent),
            along_k && can_copy_engine_read(x, t.batch)};
  args.k = t.size.k;
  args.stages = static_cast<int>(ceil_div(t.size.k, std::int64_t{args.tile.stage_k(weight_box(w.dtype))}));
  args.splits = plan.splits;
  args.line_tiles = static_cast<int>(ceil_div(w.extent, std::int64_t{args.tile.lines}));
  args.items = static_cast<int>(plan.tiles);
  args.ring = args.tile.count_stages(weight_box(w.dtype), count_row_groups(x.extent));
  args.weights_are_rows = weights_are_rows;
  args.d = {t.d, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride, output};
  return device::to_status(launch_dtypes(w.dtype, x.dtype, args, plan, stream), "launching the product");
}

}  // namespace ridge::ops::cuda
