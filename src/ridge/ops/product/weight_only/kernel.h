// Products of up to 64 rows of activations with narrow weights. A block has a tile of lines of weights and a part of k.
// Four warps load a ring of stages: one the weights, three the activations and scales. Groups of four warps convert
// weights in registers, 64 lines each, and multiply them with the activations in shared memory, by mma.sync for up to
// 16 rows and by wgmma for more, with sums in f32. The groups of the same lines add their sums in shared memory, and so
// do the blocks of a cluster that divide k, always in the same order.
#pragma once

#include <cuda.h>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/ops/product/strided.h"
#include "ridge/ops/product/weight_only/decode.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/sm90/wgmma.h"
// Must follow device_math.h, which defines RIDGE_FN.
#include "ridge/tile/cuda/prefetch.h"

namespace ridge::ops::cuda {

using tile::Index;
namespace sm90 = tile::sm90;
using Tile = WeightOnlyTile;

constexpr int warp_threads = 32, group_threads = 4 * warp_threads;
constexpr int scale_threads = 3 * warp_threads;   // Threads that load activations and scales
constexpr int added_barrier = 1;                  // Barrier of the warps that multiply
constexpr int atom_k = 64, atom_row_bytes = 128;  // Activations that the copy engine loads together, swizzled

// Threads of a kernel, and registers of each.
template <int columns> struct BlockShape {
  static constexpr WeightOnlyBlock block = weight_only_block(columns);
  static constexpr bool uses_wgmma = columns > 16;
  static constexpr int multiplying_threads = block.groups * group_threads,
                       threads = multiplying_threads + group_threads;
  static constexpr int multiplying_registers = uses_wgmma ? 104 : 96, loading_registers = uses_wgmma ? 64 : 40;
};

struct NarrowWeights {
  CUtensorMap map;
  const std::uint8_t* data;
  const std::uint8_t* scales;                 // Scales of block-scaled weights, after all elements
  Index line_bytes, batch_bytes;              // Distances of lines and matrices
  Index line_scale_bytes, batch_scale_bytes;  // Distances of their scales
  Index stored_bytes, stored_scale_bytes;     // Bytes of a line
  int lines;
  int scale_copy;  // Bytes of scales that are copied together, 1 to 16
  bool by_engine, are_constant;
};
struct Activations {
  CUtensorMap map;
  const std::uint16_t* data;
  Index row_stride, k_stride, batch_stride;
  int rows;
  bool by_engine;
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
TILE_FN BlockWork find_work(const WeightOnlyArgs& p, int item) {
  const int rank = static_cast<int>(blockIdx.x) % p.splits;
  const auto edge = [&](int i) { return static_cast<int>(Index{p.stages} * i / p.splits); };
  return {item % p.line_tiles, item / p.line_tiles, edge(rank), edge(rank + 1)};
}
template <class Work> TILE_FN void for_each_item(const WeightOnlyArgs& p, const Work& work) {
  for (int item = static_cast<int>(blockIdx.x) / p.splits; item < p.items;
       item += static_cast<int>(gridDim.x) / p.splits)
    work(find_work(p, item));
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

template <DType weights, class T, int columns> struct WeightOnlyKernel {
  using Parts = WeightParts<weights, columns>;
  using Shape = BlockShape<columns>;
  using Block = std::conditional_t<Parts::scales_sums, IntegerBlock<weights, T>, int>;
  static constexpr WeightBox box = Parts::box;
  static constexpr int atom_bytes = columns * atom_row_bytes, box_atoms = box.k / atom_k;

  static constexpr int multiplying_threads = Shape::multiplying_threads;

  const WeightOnlyArgs& p;
  std::uint8_t* const raw;
  const int lines, boxes, weight_bytes, scale_place, stage_bytes, stage_k;

  TILE_FN WeightOnlyKernel(const WeightOnlyArgs& args, std::uint8_t* shared)
      : p(args),
        raw(shared),
        lines(args.tile.lines),
        boxes(args.tile.boxes(columns)),
        weight_bytes(args.tile.weight_bytes(columns)),
        scale_place(weight_bytes + args.tile.activation_bytes(box, columns)),
        stage_bytes(args.tile.stage_bytes(box, columns)),
        stage_k(args.tile.stage_k(box, columns)) {}

  TILE_FN std::uint8_t* slot_at(int slot) const { return raw + slot * stage_bytes; }
  TILE_FN float* sums() const { return reinterpret_cast<float*>(raw + p.ring * stage_bytes); }
  TILE_FN std::uint32_t barrier(int i) const {
    return sm90::shared_address(raw + p.ring * stage_bytes + p.tile.sum_bytes(columns)) + i * 8;
  }
  TILE_FN std::uint32_t full(int slot) const { return barrier(slot); }
  TILE_FN std::uint32_t empty(int slot) const { return barrier(p.ring + slot); }

  TILE_FN void init_barriers() const {
    for (int i = 0; i < p.ring; ++i) {
      sm90::init_mbarrier(full(i), 1 + scale_threads);
      sm90::init_mbarrier(empty(i), boxes * p.tile.line_groups() * 4);
    }
    sm90::publish_mbarrier_init();
  }

  // Calls load(slot, work, stage) for all stages when their slots are free.
  template <class Load> TILE_FN void for_each_stage(const Load& load) const {
    RingPosition at{0, 1};
    for_each_item(p, [&](const BlockWork& work) {
      for (int stage = work.first; stage < work.end; ++stage) {
        sm90::wait_mbarrier(empty(at.slot), at.phase);
        load(at.slot, work, stage);
        at.advance(p.ring);
      }
    });
  }

  // Loads the weights of all stages: the first thread by the copy engine or, from other addresses, 32 threads by bytes.
  TILE_FN void load_weights() const {
    if (!p.weights.are_constant) sm90::wait_for_earlier_kernels();
    const bool is_first = threadIdx.x % warp_threads == 0;
    if (!p.weights.by_engine)
      for_each_stage([&](int slot, const BlockWork& work, int stage) {
        copy_weights(slot_at(slot), work, stage);
        __syncwarp();
        if (is_first) sm90::arrive_mbarrier(full(slot));
      });
    else if (is_first)
      for_each_stage([&](int slot, const BlockWork& work, int stage) {
        request_weights(slot, work, stage);
        sm90::arrive_mbarrier(full(slot));
      });
  }
  TILE_FN void request_weights(int slot, const BlockWork& work, int stage) const {
    const int box_bytes = lines * WeightBox::line_bytes;
    sm90::expect_bytes(full(slot), weight_bytes);
    for (int i = 0; i < boxes; ++i)
      sm90::load_box(sm90::shared_address(slot_at(slot) + i * box_bytes), &p.weights.map, tile::evict_first,
                     {(stage * boxes + i) * WeightBox::line_bytes, work.line_tile * lines,
                      p.weights.batch_bytes == 0 ? 0 : work.batch},
                     full(slot));
  }
  TILE_FN void copy_weights(std::uint8_t* to, const BlockWork& work, int stage) const {
    const int box_bytes = lines * WeightBox::line_bytes;
    const std::uint8_t* const from = p.weights.data + work.batch * p.weights.batch_bytes;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % warp_threads; i < weight_bytes; i += warp_threads) {
      const int line = i % box_bytes / WeightBox::line_bytes, byte = i % WeightBox::line_bytes;
      const Index row = Index{work.line_tile} * lines + line,
                  at = Index{stage * boxes + i / box_bytes} * WeightBox::line_bytes + byte;
      const bool exists = row < p.weights.lines && at < p.weights.stored_bytes;
      to[i - byte + (byte ^ (line & 7) * 16)] = exists ? from[row * p.weights.line_bytes + at] : std::uint8_t{0};
    }
  }

  // Loads the activations and the scales of all stages. Elements beyond the last are zeros. Each way to copy has its
  // own loop, since one with all of them needs more registers than these warps have.
  TILE_FN void load_activations_and_scales() const {
    sm90::wait_for_earlier_kernels();
    if constexpr (Parts::block == 0) {
      p.x.by_engine ? load_stages<0, true>() : load_stages<0, false>();
    } else if (!p.x.by_engine) {
      p.weights.scale_copy < 4 ? load_stages<1, false>() : load_stages<4, false>();
    } else {
      switch (p.weights.scale_copy) {
        case 16: return load_stages<16, true>();
        case 8: return load_stages<8, true>();
        case 4: return load_stages<4, true>();
        default: return load_stages<1, true>();
      }
    }
  }
  // Scales are copied `bytes` at a time, single bytes with waiting; 0 if there are none.
  template <int bytes, bool by_engine> TILE_FN void load_stages() const {
    for_each_stage([&](int slot, const BlockWork& work, int stage) {
      if constexpr (!by_engine) {
        copy_activations(slot_at(slot) + weight_bytes, work, stage);
        sm90::fence_shared_proxy();
      } else if (scale_thread() == 0) {
        request_activations(slot, work, stage);
      }
      if constexpr (bytes > 0) copy_scales<bytes>(slot_at(slot) + scale_place, work, stage);
      bytes > 1 ? sm90::arrive_after_copies(full(slot)) : sm90::arrive_mbarrier(full(slot));
    });
  }
  TILE_FN static int scale_thread() { return static_cast<int>(threadIdx.x) - multiplying_threads - warp_threads; }
  TILE_FN void request_activations(int slot, const BlockWork& work, int stage) const {
    const int atoms = boxes * box_atoms;
    sm90::expect_bytes(full(slot), atoms * atom_bytes);
    for (int i = 0; i < atoms; ++i)
      sm90::load_box(sm90::shared_address(slot_at(slot) + weight_bytes + i * atom_bytes), &p.x.map, tile::evict_normal,
                     {stage * stage_k + i * atom_k, 0, p.x.batch_stride == 0 ? 0 : work.batch}, full(slot));
  }
  TILE_FN void copy_activations(std::uint8_t* to, const BlockWork& work, int stage) const {
    const std::uint16_t* const from = p.x.data + work.batch * p.x.batch_stride;
#pragma unroll 1
    for (int i = scale_thread(); i < columns * stage_k; i += scale_threads) {
      const int row = i / stage_k, in_stage = i % stage_k, element = in_stage % atom_k;
      const Index k = Index{stage} * stage_k + in_stage;
      const bool exists = row < p.x.rows && k < p.k;
      auto* const place = to + in_stage / atom_k * atom_bytes + row * atom_row_bytes +
                          ((element / 8 ^ (row & 7)) * 16 + element % 8 * 2);
      *reinterpret_cast<std::uint16_t*>(place) =
          exists ? from[row * p.x.row_stride + k * p.x.k_stride] : std::uint16_t{0};
    }
  }
  // Copies the scales of a stage, `bytes` at a time. Those of a line, of all its boxes, are contiguous.
  template <int bytes> TILE_FN void copy_scales(std::uint8_t* to, const BlockWork& work, int stage) const {
    const int line_bytes = boxes * box.scale_bytes, copies_log2 = __ffs(line_bytes / bytes) - 1;
    const int left_lines = p.weights.lines - work.line_tile * lines;
    const std::uint8_t* const from = p.weights.scales + work.batch * p.weights.batch_scale_bytes +
                                     Index{work.line_tile} * lines * p.weights.line_scale_bytes +
                                     Index{stage} * line_bytes;
    const int left_bytes =
        static_cast<int>(min(p.weights.stored_scale_bytes - Index{stage} * line_bytes, Index{line_bytes}));
#pragma unroll 1
    for (int i = scale_thread(); i < lines << copies_log2; i += scale_threads) {
      const int line = i >> copies_log2, at = (i & ((1 << copies_log2) - 1)) * bytes;
      const bool exists = line < left_lines && at < left_bytes;
      const std::uint8_t* const source = exists ? from + line * p.weights.line_scale_bytes + at : p.weights.scales;
      if constexpr (bytes == 1)
        to[i] = exists ? *source : std::uint8_t{0};
      else
        tile::cuda::copy_async<bytes>(sm90::shared_address(to + i * bytes), reinterpret_cast<const char*>(source),
                                      exists ? bytes : 0);
    }
  }

  using Sums = float[columns / 8][4];

  TILE_FN void multiply() const {
    const int thread = static_cast<int>(threadIdx.x) % group_threads,
              group = static_cast<int>(threadIdx.x) / group_threads, line_groups = p.tile.line_groups(),
              of_box = group / line_groups,
              first_line = group % line_groups * Tile::group_lines + thread / warp_threads * 16;
    // Warps beyond the last line convert the last lines again, and do not store their sums.
    const int quad = thread % warp_threads / 4, line = min(first_line, lines - 16) + quad;
    RingPosition at;
    bool has_waited = false;
    for_each_item(p, [&](const BlockWork& work) {
      Sums acc = {};
      for (int stage = work.first; stage < work.end && of_box < boxes; ++stage) {
        const std::uint8_t* const slot = slot_at(at.slot);
        const std::uint8_t* const scales = slot + scale_place + (line * boxes + of_box) * box.scale_bytes;
        const ThreadLines<weights, T, columns> mine{slot + (of_box * lines + line) * WeightBox::line_bytes,
                                                    {scales, scales + 8 * boxes * box.scale_bytes},
                                                    thread % 4,
                                                    line & 7};
        sm90::wait_mbarrier(full(at.slot), at.phase);
        multiply_box(acc, mine, sm90::shared_address(slot) + weight_bytes + of_box * box_atoms * atom_bytes);
        __syncwarp();
        if (threadIdx.x % warp_threads == 0) sm90::arrive_mbarrier(empty(at.slot));
        at.advance(p.ring);
      }
      for (int other = 0; other < boxes; ++other) {
        if (other == of_box) add_sums(acc, first_line, other > 0);
        sm90::sync_threads(added_barrier, multiplying_threads);
      }
      if (!has_waited) sm90::wait_for_earlier_kernels();
      has_waited = true;
      if (p.splits > 1) return;
      store_runs<false>(work, 0);
      sm90::sync_threads(added_barrier, multiplying_threads);
    });
  }

  // Adds the product of a box.
  TILE_FN void multiply_box(Sums& acc, const ThreadLines<weights, T, columns>& mine, std::uint32_t x) const {
    if constexpr (Shape::uses_wgmma)
      multiply_by_groups(acc, mine, x);
    else
      multiply_by_warps(acc, mine, x);
  }
  // Warps multiply on their own: up to 16 columns take fewer cycles with mma.sync than with wgmma (decision 59).
  TILE_FN void multiply_by_warps(Sums& acc, const ThreadLines<weights, T, columns>& mine, std::uint32_t x) const {
    Sums of_block;
    Block blocks[2] = {};
    auto& sums = select_sums(acc, of_block);
    const std::uint32_t lane = threadIdx.x % warp_threads,
                        from = x + lane % 8 * atom_row_bytes + (lane / 8 ^ lane % 8) * 16;
#pragma unroll
    for (int part = 0; part < Parts::parts; ++part) {
      if constexpr (Parts::scales_sums)
        if (part % block_parts == 0) {
          load_blocks(blocks, mine, part);
#pragma unroll
          for (int i = 0; i < columns / 8 * 4; ++i) of_block[i / 4][i % 4] = 0;
        }
      std::uint32_t a[Parts::steps][4];
      mine.decode(a, part, blocks);
#pragma unroll
      for (int step = 0; step < Parts::steps; step += 2)
#pragma unroll
        for (int group = 0; group < columns / 8; ++group) {
          const int k = (part * Parts::steps + step) * Parts::step_k;
          std::uint32_t b[4];
          load_columns(b, (from ^ k % atom_k * 2) + k / atom_k * atom_bytes + group * 8 * atom_row_bytes);
          multiply_step(sums[group], a[step], b);
          multiply_step(sums[group], a[step + 1], b + 2);
        }
      if constexpr (Parts::scales_sums)
        if ((part + 1) % block_parts == 0) add_block(acc, of_block, blocks[0].scale, blocks[1].scale);
    }
  }
  // Loads 32 elements of k of eight rows of activations.
  TILE_FN static void load_columns(std::uint32_t (&b)[4], std::uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(from)
                 : "memory");
  }
  // Adds the product of 16 lines of weights x 16 elements of k with eight columns of activations.
  TILE_FN static void multiply_step(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t* b) {
    if constexpr (std::is_same_v<T, Bf16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  // Groups of four warps multiply. A part is converted while the tensor cores multiply the one before.
  TILE_FN void multiply_by_groups(Sums& acc, const ThreadLines<weights, T, columns>& mine, std::uint32_t x) const {
    std::uint32_t a[2][Parts::steps][4];
    Sums of_block = {};
    Block blocks[2] = {};
    float scale[2] = {};
    auto& sums = select_sums(acc, of_block);
#pragma unroll
    for (int part = 0; part < Parts::parts; ++part) {
      const bool starts = Parts::scales_sums && part % block_parts == 0;
      if constexpr (Parts::scales_sums)
        if (starts) load_blocks(blocks, mine, part);
      mine.decode(a[part % 2], part, blocks);
      if (part > 0) sm90::mma_wait<0>();
      if constexpr (Parts::scales_sums)
        if (starts) {
          if (part > 0) add_block(acc, of_block, scale[0], scale[1]);
          scale[0] = blocks[0].scale;
          scale[1] = blocks[1].scale;
        }
      sm90::mma_fence();
#pragma unroll
      for (int step = 0; step < Parts::steps; ++step) {
        const int k = (part * Parts::steps + step) * Parts::step_k;
        sm90::mma_64_registers<columns, T, tile::Major::k>(
            sums[0], a[part % 2][step],
            sm90::make_descriptor<tile::Major::k>(x + k / atom_k * atom_bytes + k % atom_k * 2, 0),
            static_cast<int>(!(starts && step == 0)));
      }
      sm90::mma_commit();
    }
    sm90::mma_wait<0>();
    if constexpr (Parts::scales_sums) add_block(acc, of_block, scale[0], scale[1]);
  }

  static constexpr int block_parts = Parts::scales_sums ? Parts::block / Parts::k : 1;
  TILE_FN static Sums& select_sums(Sums& acc, Sums& of_block) {
    if constexpr (Parts::scales_sums) return of_block;
    return acc;
  }
  template <class Lines> TILE_FN static void load_blocks(Block (&blocks)[2], const Lines& mine, int part) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      blocks[i] = Block::load(mine.scales[i] + part / block_parts * BlockPlanes<weights>::scale_bytes);
  }
  // Adds the sums of a block times the scales of the thread's two lines.
  TILE_FN static void add_block(Sums& acc, const Sums& of_block, float first, float second) {
#pragma unroll
    for (int i = 0; i < columns / 8 * 4; ++i)
      acc[i / 4][i % 4] += (i % 4 < 2 ? first : second) * of_block[i / 4][i % 4];
  }

  // Returns the place of the sum of a line of weights and a row of activations, which are contiguous as in D.
  TILE_FN int index_of_sum(int line, int row) const {
    return p.weights_are_rows ? line * (columns + 4) + row : row * (lines + 4) + line;
  }
  TILE_FN void add_sums(const Sums& acc, int first_line, bool add) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    if (first_line >= lines) return;
#pragma unroll
    for (int group = 0; group < columns / 8; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& sum = sums()[index_of_sum(first_line + i / 2 * 8 + lane / 4, group * 8 + lane % 4 * 2 + i % 2)];
        sum = add ? sum + acc[group][i] : acc[group][i];
      }
  }

  // Applies the epilogue to runs of eight sums and stores them. The blocks of a cluster add their sums and divide the
  // runs among them.
  template <bool of_cluster> TILE_FN void store_runs(const BlockWork& work, int rank) const {
    const int d_lines = p.weights_are_rows ? lines : p.x.rows, line_runs = p.weights_are_rows ? columns / 8 : lines / 8;
    const Index first = Index{work.line_tile} * lines;
    const int step = (of_cluster ? p.splits : 1) * multiplying_threads;
    for (int i = rank * multiplying_threads + static_cast<int>(threadIdx.x); i < d_lines * line_runs; i += step) {
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

template <DType weights, class T, int columns>
__global__ void __launch_bounds__(BlockShape<columns>::threads, BlockShape<columns>::block.resident_blocks)
    weight_only_kernel(const __grid_constant__ WeightOnlyArgs p) {
  extern __shared__ __align__(1024) std::uint8_t raw[];
  using Shape = BlockShape<columns>;
  const WeightOnlyKernel<weights, T, columns> kernel(p, raw);
  const int warp = static_cast<int>(threadIdx.x) / warp_threads,
            loading_warp = Shape::multiplying_threads / warp_threads;
  if (threadIdx.x == 0) kernel.init_barriers();
  __syncthreads();
  sm90::let_next_kernel_start();
  if (warp < loading_warp) {
    sm90::increase_registers<Shape::multiplying_registers>();
    kernel.multiply();
  } else {
    sm90::decrease_registers<Shape::loading_registers>();
    if (warp == loading_warp && p.weights.by_engine) sm90::prefetch_map(&p.weights.map);
    if (warp == loading_warp + 1 && p.x.by_engine) sm90::prefetch_map(&p.x.map);
    if (warp == loading_warp)
      kernel.load_weights();
    else
      kernel.load_activations_and_scales();
  }
  if (p.splits == 1) return;
  // Each cluster has one item.
  __syncwarp();
  sm90::cluster_sync();
  if (warp < loading_warp)
    kernel.template store_runs<true>(find_work(p, static_cast<int>(blockIdx.x) / p.splits), sm90::cluster_rank());
  __syncwarp();
  sm90::cluster_sync();
}

}  // namespace ridge::ops::cuda
