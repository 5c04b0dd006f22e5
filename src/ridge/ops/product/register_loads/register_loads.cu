// Products whose operands threads load through registers, from lines of any alignment in either order, and write to a
// ring in shared memory: two warpgroups load, two others multiply on tensor cores. The copy engine, which other
// products use, needs lines that start at multiples of 16 bytes.
//
// f32: every element is the sum of three bf16 parts, x = x1 + x2 + x3, each rounded to nearest from what the parts
// before it leave, so that less than 2^-26 of an element is lost. A product of two elements is
// a1*b1 + a1*b2 + a2*b1 + a1*b3 + a2*b2 + a3*b1; the omitted terms are below 2^-25 of it. Tensor cores truncate their
// sums, so the sums of 64 elements of k are added to f32 registers, rounded to nearest. Six products of bf16 bound the
// speed at a sixth of the tensor cores' peak, 165 TFLOP/s on an H100, where the vector units have 67. Parts of
// infinities and NaN would make NaN of all sums, and elements beyond the largest bf16 would become infinite: the sums
// of tiles that contain such elements are computed once more without tensor cores. Elements below 2^-108 have an
// absolute error of up to 2^-134, because the parts reach the smallest bf16 number.
//
// Elements of tf32, bf16 and f16 are multiplied as they are.
#include "ridge/ops/product/register_loads/multiply.h"

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/kernel_sample.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/shared_memory.h"
#include "ridge/ops/product/strided.h"
#include "ridge/tile/sm90/epilogue.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/sm90/wgmma.h"
#include "ridge/tile/tile_scheduler.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::Major, tile::WorkItem;
namespace sm90 = tile::sm90;
using Config = RegisterLoadsConfig;

constexpr int group_threads = 128, multiplying_groups = 2, loading_groups = 2;
constexpr int loading_threads = loading_groups * group_threads;
constexpr int block_threads = (multiplying_groups + loading_groups) * group_threads;
// 256 threads of each kind share the 65,536 registers of a multiprocessor; those that multiply parts need more of them.
constexpr int multiplying_registers = 152, loading_registers = 104;
constexpr int fours = Config::k / 4;  // Groups of four elements of k in a stage
// An element of tf32, whereas `float` is f32, which is multiplied in parts.
struct Tf32 {
  float value;
};
template <class T> inline constexpr bool is_split = std::is_same_v<T, float>;
template <class T> inline constexpr DType tile_dtype_of = DType::bf16;  // Elements of f16 have the same tiles
template <> inline constexpr DType tile_dtype_of<float> = DType::f32;
template <> inline constexpr DType tile_dtype_of<Tf32> = DType::tf32;
template <class T> inline constexpr int tiles_of = Config::tiles(tile_dtype_of<T>);
inline constexpr int f32_parts = tiles_of<float>;
template <class T> struct MultipliedType { using type = T; };
template <> struct MultipliedType<float> { using type = Bf16; };
template <> struct MultipliedType<Tf32> { using type = float; };

struct LoadedOperand {
  const void* data;
  Index line_stride, batch_stride;
  int extent;
  bool along_k;  // True if lines are along k
  RegisterLoads loads;
};

struct RegisterLoadsArgs {
  LoadedOperand a, b;
  tile::ProductShape sizes;
  bool swap;           // True if the rows of the tile are columns of D
  StridedOutput d;     // D, or the sums of split 0
  Index split_floats;  // Distance of the sums of two splits
};

template <int count, int rows> struct alignas(1024) SwizzledTiles { std::uint8_t data[count][rows * swizzle_bytes]; };

template <class T, int n> struct RegisterLoadsStorage {
  static constexpr int stages = ring_stages(n, tile_dtype_of<T>);
  struct Stage {
    SwizzledTiles<tiles_of<T>, Config::m> a;
    SwizzledTiles<tiles_of<T>, n> b;
  } ring[stages];
  float staging[multiplying_groups * 4][256];  // 16 x 16 sums of each multiplying warp
  std::uint64_t full[stages], empty[stages];
  int exceptional[stages];  // Number of the last fill of the slot with an element that is not a sum of parts
};
template <class T, int n> inline constexpr int shared_bytes = sizeof(RegisterLoadsStorage<T, n>) + 1024;

// Loads the first `inside` of four consecutive elements, one in each word, with zeros in place of the others.
// Volatile, so that all loads of a stage are issued before the first is used.
__device__ void load_elements(std::uint32_t (&words)[4], const float* from, int inside) {
  asm volatile(
      "{ .reg .pred p0, p1, p2, p3; setp.gt.s32 p0, %5, 0; setp.gt.s32 p1, %5, 1; setp.gt.s32 p2, %5, 2; "
      "setp.gt.s32 p3, %5, 3;\n\t"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n\t"
      "@p0 ld.global.b32 %0, [%4]; @p1 ld.global.b32 %1, [%4+4]; @p2 ld.global.b32 %2, [%4+8]; "
      "@p3 ld.global.b32 %3, [%4+12]; }"
      : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
      : "l"(from), "r"(inside));
}
__device__ void load_elements(std::uint32_t (&words)[4], const std::uint16_t* from, int inside) {
  asm volatile(
      "{ .reg .pred p0, p1, p2, p3; setp.gt.s32 p0, %5, 0; setp.gt.s32 p1, %5, 1; setp.gt.s32 p2, %5, 2; "
      "setp.gt.s32 p3, %5, 3;\n\t"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n\t"
      "@p0 ld.global.u16 %0, [%4]; @p1 ld.global.u16 %1, [%4+2]; @p2 ld.global.u16 %2, [%4+4]; "
      "@p3 ld.global.u16 %3, [%4+6]; }"
      : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
      : "l"(from), "r"(inside));
}
// The same for the two halves of a group, of which each is inside or outside as a whole: one word for two elements.
__device__ void load_pairs(std::uint32_t (&words)[4], const std::uint16_t* from, int inside) {
  asm volatile(
      "{ .reg .pred p0, p2; setp.gt.s32 p0, %3, 0; setp.gt.s32 p2, %3, 2; mov.b32 %0, 0; mov.b32 %1, 0;\n\t"
      "@p0 ld.global.b32 %0, [%2]; @p2 ld.global.b32 %1, [%2+4]; }"
      : "=&r"(words[0]), "=&r"(words[1])
      : "l"(from), "r"(inside));
}
// The same for a group that is inside or outside as a whole: four registers of f32, two of 16-bit elements.
__device__ void load_vector(std::uint32_t (&words)[4], const float* from, int inside) {
  asm volatile(
      "{ .reg .pred p; setp.gt.s32 p, %5, 0;\n\t"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n\t"
      "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
      : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
      : "l"(from), "r"(inside));
}
__device__ void load_vector(std::uint32_t (&words)[4], const std::uint16_t* from, int inside) {
  asm volatile(
      "{ .reg .pred p; setp.gt.s32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.v2.b32 {%0, %1}, [%2]; }"
      : "=&r"(words[0]), "=&r"(words[1])
      : "l"(from), "r"(inside));
}

__device__ void store_pair(std::uint32_t to, std::uint32_t low, std::uint32_t high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}

// Splits two elements into parts. Sets bits of `exceptional` if the first part of one is infinite or NaN.
__device__ void split_two(float x, float y, std::uint32_t (&two)[f32_parts], std::uint32_t& exceptional) {
#pragma unroll
  for (int i = 0; i < f32_parts; ++i) {
    two[i] = sm90::pack_pair<Bf16>(x, y);
    if (i == 0) exceptional |= ((two[0] & 0x7f807f80u) + 0x00800080u) & 0x80008000u;
    const float2 rounded = sm90::unpack_pair<Bf16>(two[i]);
    x -= rounded.x;
    y -= rounded.y;
  }
}

__device__ void store_four(std::uint32_t to, const std::uint32_t (&v)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

constexpr std::uint32_t low_halves = 0x5410, high_halves = 0x7632;  // Selections of __byte_perm

// Returns the offset in bytes of group `four` of four elements of k of a row in tiles of `rows` rows of 128 bytes,
// whose units of 16 bytes are swizzled: a unit is a group of tf32, or two groups of elements of 16 bits.
template <class T, int rows> __device__ constexpr std::uint32_t group_offset(int row, int four) {
  if constexpr (std::is_same_v<T, Tf32>)
    return static_cast<std::uint32_t>(four / 8 * rows * 128 + row * 128 + (four % 8 ^ row % 8) * 16);
  return static_cast<std::uint32_t>(row * 128 + (four / 2 ^ row % 8) * 16 + four % 2 * 8);
}

// The elements of an operand's stage that a loading thread has in registers, four at a time. If lines are along k, a
// group is four elements of a line; otherwise four lines of k are loaded and transposed in registers.
template <class T, int rows> struct StageLoader {
  using Element = std::conditional_t<sizeof(T) == 4, float, std::uint16_t>;
  static constexpr int row_blocks = rows / 4;                            // Blocks of four rows
  static constexpr int blocks_across = row_blocks < 8 ? row_blocks : 8;  // Blocks of a warp along the lines
  static constexpr int per_thread = rows * fours / loading_threads;      // Groups of four elements along k
  static constexpr int blocks_per_thread = (per_thread + 3) / 4;
  static constexpr int count = blocks_per_thread * 4;
  static constexpr int row_step = loading_threads / fours;  // Rows between two groups of a thread, if lines are along k
  static_assert(row_step % 8 == 0, "rows of a thread must have the same swizzle");
  std::uint32_t x[count][4];

  // Position of a thread's block of four rows and four elements of k, if lines are along the rows.
  struct Block {
    int row, four;
    bool exists;
  };
  __device__ static Block block_of(int i, int thread) {
    constexpr int fours_of_warp = 32 / blocks_across, warps_across = row_blocks / blocks_across;
    const int lane = thread % 32, warp = thread / 32 + i * (loading_threads / 32);
    const int four = warp / warps_across * fours_of_warp + lane / blocks_across;
    return {(warp % warps_across * blocks_across + lane % blocks_across) * 4, four, four < fours};
  }

  __device__ void load(const LoadedOperand& from, Index batch, int row0, int k0, int k, int thread) {
    if (from.loads == RegisterLoads::vectors)
      load_groups<RegisterLoads::vectors>(from, batch, row0, k0, k, thread);
    else if (sizeof(T) == 2 && from.loads == RegisterLoads::pairs)
      load_groups<RegisterLoads::pairs>(from, batch, row0, k0, k, thread);
    else
      load_groups<RegisterLoads::elements>(from, batch, row0, k0, k, thread);
  }
  template <RegisterLoads loads>
  __device__ static void load_four(std::uint32_t (&words)[4], const Element* from, int inside) {
    if constexpr (loads == RegisterLoads::vectors)
      load_vector(words, from, inside);
    else if constexpr (loads == RegisterLoads::pairs && sizeof(T) == 2)
      load_pairs(words, from, inside);
    else
      load_elements(words, from, inside);
  }
  template <RegisterLoads loads>
  __device__ void load_groups(const LoadedOperand& from, Index batch, int row0, int k0, int k, int thread) {
    const Element* const matrix = static_cast<const Element*>(from.data) + batch * from.batch_stride;
    if (from.along_k) {
      const int four = thread % fours * 4, row = row0 + thread / fours;
      const Element* line = matrix + row * from.line_stride + k0 + four;
      const int left = k - k0 - four;
#pragma unroll
      for (int i = 0; i < per_thread; ++i) {
        load_four<loads>(x[i], line, row + i * row_step < from.extent ? left : 0);
        line += row_step * from.line_stride;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < blocks_per_thread; ++i) {
      const Block block = block_of(i, thread);
      const int first_k = k0 + block.four * 4;
      const Element* line = matrix + first_k * from.line_stride + row0 + block.row;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool exists = block.exists && first_k + j < k;
        load_four<loads>(x[4 * i + j], line, exists ? from.extent - row0 - block.row : 0);
        line += from.line_stride;
      }
    }
  }

  // Writes four elements of k of a row: f32 as parts, of which the first is written to `to`.
  __device__ static void write_four(const std::uint32_t (&v)[4], std::uint32_t to, std::uint32_t& exceptional) {
    if constexpr (!is_split<T>) return store_four(to, v);
    std::uint32_t low[f32_parts], high[f32_parts];
    split_two(__uint_as_float(v[0]), __uint_as_float(v[1]), low, exceptional);
    split_two(__uint_as_float(v[2]), __uint_as_float(v[3]), high, exceptional);
#pragma unroll
    for (int i = 0; i < f32_parts; ++i) store_pair(to + i * rows * 128, low[i], high[i]);
  }
  // Returns the four 16-bit elements of a group.
  __device__ static uint2 join(const std::uint32_t (&words)[4], RegisterLoads loads) {
    if (loads != RegisterLoads::elements) return {words[0], words[1]};
    return {__byte_perm(words[0], words[1], low_halves), __byte_perm(words[2], words[3], low_halves)};
  }
  // Addresses of different rows differ by constants or by a few bits: more addresses in registers would be spilled.
  __device__ void write_stage(const LoadedOperand& from, std::uint32_t tiles, int thread,
                              std::uint32_t& exceptional) const {
    if (from.along_k) {
      const std::uint32_t first = tiles + group_offset<T, rows>(thread / fours, thread % fours);
#pragma unroll
      for (int i = 0; i < per_thread; ++i) {
        const std::uint32_t to = first + i * row_step * 128;
        if constexpr (sizeof(T) == 2) {
          const uint2 v = join(x[i], from.loads);
          store_pair(to, v.x, v.y);
        } else {
          write_four(x[i], to, exceptional);
        }
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < blocks_per_thread; ++i) {
      const Block block = block_of(i, thread);
      if (!block.exists) continue;
      const std::uint32_t first = tiles + group_offset<T, rows>(block.row, block.four);
      const auto address = [&](int row) { return (first ^ row * 16) + row * 128; };  // Tiles are aligned, row % 4 is 0
      if constexpr (sizeof(T) == 2) {
        uint2 lines[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) lines[j] = join(x[4 * i + j], from.loads);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const auto word = [&](int line) { return j < 2 ? lines[line].x : lines[line].y; };
          const std::uint32_t halves = j % 2 ? high_halves : low_halves;
          store_pair(address(j), __byte_perm(word(0), word(1), halves), __byte_perm(word(2), word(3), halves));
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t v[4] = {x[4 * i][j], x[4 * i + 1][j], x[4 * i + 2][j], x[4 * i + 3][j]};
          write_four(v, address(j), exceptional);
        }
      }
    }
  }
};

// The stages of a block's items, one after another.
struct StageCursor {
  tile::TileScheduler items;
  WorkItem item{};
  int stage = 0;
  __device__ bool advance() {
    if (++stage < item.end_stage) return true;
    do {
      if (!items.next(item)) return false;
      stage = item.first_stage;
    } while (stage >= item.end_stage);
    return true;
  }
};

template <class T, int n> __device__ void load_stages(RegisterLoadsStorage<T, n>& s, const RegisterLoadsArgs& p,
                                                      const tile::TileScheduler& items) {
  constexpr int stages = s.stages;
  const int thread = static_cast<int>(threadIdx.x) % loading_threads;
  StageCursor at{items};
  StageLoader<T, Config::m> a;
  StageLoader<T, n> b;
  const auto load_a = [&] { a.load(p.a, at.item.batch, at.item.m0, at.stage * Config::k, p.sizes.k, thread); };
  const auto load_b = [&] { b.load(p.b, at.item.batch, at.item.n0, at.stage * Config::k, p.sizes.k, thread); };
  // The first iteration only loads. One place for each load keeps the code small, which every launch reads from memory.
  for (int fill = -1;; ++fill) {
    const int slot = fill % stages;
    if (fill >= stages) sm90::wait_mbarrier(sm90::shared_address(s.empty + slot), (fill / stages + 1) % 2);
    const bool more = at.advance();
    std::uint32_t exceptional = 0;
    if (fill >= 0) a.write_stage(p.a, sm90::shared_address(&s.ring[slot].a), thread, exceptional);
    if (more) load_a();
    if (fill >= 0) {
      b.write_stage(p.b, sm90::shared_address(&s.ring[slot].b), thread, exceptional);
      if (exceptional) s.exceptional[slot] = fill;
      sm90::fence_shared_proxy();
      __syncwarp();
      if (thread % 32 == 0) sm90::arrive_mbarrier(sm90::shared_address(s.full + slot));
    }
    if (!more) return;
    load_b();
  }
}

// Returns one f32 sum over an item's part of k without tensor cores.
__device__ float add_products(const RegisterLoadsArgs& p, const WorkItem& item, int row, int col) {
  if (row >= p.a.extent || col >= p.b.extent) return 0;
  const int begin = item.first_stage * Config::k, end = min(item.end_stage * Config::k, p.sizes.k);
  const auto step = [](const LoadedOperand& x) { return x.along_k ? Index{1} : x.line_stride; };
  const auto line = [&](const LoadedOperand& x, int i) {
    return static_cast<const float*>(x.data) + item.batch * x.batch_stride + i * (x.along_k ? x.line_stride : 1);
  };
  const float *a = line(p.a, row), *b = line(p.b, col);
  float sum = 0;
  for (int k = begin; k < end; k += Config::k) {
    float partial = 0;
    for (int i = k; i < min(k + Config::k, end); ++i) partial = fmaf(a[i * step(p.a)], b[i * step(p.b)], partial);
    sum += partial;
  }
  return sum;
}

// A multiplying warpgroup, whose threads have 64 x n sums in the layout of wgmma.
template <class T, int n> struct RegisterLoadsMultiplier {
  static constexpr int size = n / 2, stages = RegisterLoadsStorage<T, n>::stages;
  RegisterLoadsStorage<T, n>& s;
  const RegisterLoadsArgs& p;
  int group;
  int fill = 0;
  float sums[size];

  // Adds the product of two tiles to `to`, of which `first` sets the first term.
  __device__ void multiply_tiles(float (&to)[size], int slot, int tile_a, int tile_b, bool first) {
    const std::uint32_t a = sm90::shared_address(&s.ring[slot].a) + (tile_a * Config::m + group * 64) * 128,
                        b = sm90::shared_address(&s.ring[slot].b) + tile_b * n * 128;
    const std::uint64_t from_a = sm90::make_descriptor<Major::k>(a, 0), from_b = sm90::make_descriptor<Major::k>(b, 0);
    using Multiplied = typename MultipliedType<T>::type;
#pragma unroll
    for (int step = 0; step < swizzle_bytes / wgmma_bytes; ++step)
      sm90::mma_64<n, Multiplied, Major::k, Major::k>(to, from_a + 2 * step, from_b + 2 * step, !first || step > 0);
  }
  __device__ void finish_stage(int slot) {
    sm90::mma_commit();
    sm90::mma_wait<0>();
    if (threadIdx.x % group_threads == 0) sm90::arrive_mbarrier(sm90::shared_address(s.empty + slot));
  }
  // Adds the products of a stage; of f32 the six largest products of parts, the smallest first.
  __device__ void multiply_stage(int slot, bool first) {
    sm90::mma_fence();
    if constexpr (!is_split<T>) {
#pragma unroll
      for (int tile = 0; tile < tiles_of<T>; ++tile) multiply_tiles(sums, slot, tile, tile, first && tile == 0);
      finish_stage(slot);
    } else {
      constexpr int order[][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
      float chunk[size];
#pragma unroll
      for (int i = 0; i < 6; ++i) multiply_tiles(chunk, slot, order[i][0], order[i][1], i == 0);
      finish_stage(slot);
#pragma unroll
      for (int i = 0; i < size; ++i) sums[i] += chunk[i];
    }
  }

  __device__ void multiply_item(const WorkItem& item) {
#pragma unroll
    for (int i = 0; i < size; ++i) sums[i] = 0;
    bool exceptional = false;
    for (int stage = item.first_stage; stage < item.end_stage; ++stage, ++fill) {
      const int slot = fill % stages;
      sm90::wait_mbarrier(sm90::shared_address(s.full + slot), fill / stages % 2);
      if constexpr (is_split<T>) exceptional |= s.exceptional[slot] == fill;
      multiply_stage(slot, stage == item.first_stage);
    }
    if (!exceptional) return;
    const int thread = static_cast<int>(threadIdx.x) % group_threads;
    const int row = item.m0 + group * 64 + thread / 32 * 16 + thread % 32 / 4, col = item.n0 + thread % 4 * 2;
    for (int i = 0; i < size; ++i) {
      const float sum = add_products(p, item, row + i / 2 % 2 * 8, col + i / 4 * 8 + i % 2);
#pragma unroll
      for (int j = 0; j < size; ++j)
        if (j == i) sums[j] = sum;
    }
  }

  template <sm90::RunDirection run> __device__ void store_runs(const WorkItem& item) {
    struct {
      void* data;
      Index rows, cols, row_stride, batch_stride;
      const tile::TargetOutput& target;
    } d{p.d.data, p.d.rows, p.d.cols, p.d.row_stride, p.d.batch_stride, p.d.target};
    if (item.splits > 1) d.data = static_cast<float*>(d.data) + item.split * p.split_floats;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    constexpr bool along_rows = run == sm90::RunDirection::row;
    float* const mine = s.staging[warp];
#pragma unroll 1
    for (int step = 0; step < n / 16; ++step) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < n / 16; ++i)  // Registers are indexed by constants
        if (i == step) sm90::stage_sums<16>(mine, sums + i * 8);
      __syncwarp();
      const auto store = [&]<bool across>() {
        const int r = across ? lane / 2 : lane / 16 * 8, c = across ? lane % 2 * 8 : lane % 16;
        const sm90::EpilogueVector<8> eight = sm90::read_sums<across>(mine, r, c);
        const int row = item.m0 + warp * 16 + r, col = item.n0 + step * 16 + c;
        const auto at = sm90::EpilogueRun<8, run>::in(d, p.swap ? col : row, p.swap ? row : col, item.batch);
        if (at.inside_count > 0) sm90::apply_and_store(d, eight, at);
      };
      if (p.swap)
        store.template operator()<!along_rows>();
      else
        store.template operator()<along_rows>();
    }
  }
  __device__ void store(const WorkItem& item) {
    if (p.d.target.aligned_fours)
      store_runs<sm90::RunDirection::row>(item);
    else
      store_runs<sm90::RunDirection::column>(item);
  }
};

template <class T, int n> __global__ void __launch_bounds__(block_threads, 1)
    register_loads_kernel(const __grid_constant__ RegisterLoadsArgs p) {
  extern __shared__ std::uint8_t raw[];
  using Storage = RegisterLoadsStorage<T, n>;
  constexpr int stages = Storage::stages;
  auto& s = *reinterpret_cast<Storage*>(raw + (1024 - sm90::shared_address(raw) % 1024) % 1024);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / group_threads, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      sm90::init_mbarrier(sm90::shared_address(s.full + i), loading_threads / 32);
      sm90::init_mbarrier(sm90::shared_address(s.empty + i), multiplying_groups);
      s.exceptional[i] = -1;
    }
    sm90::publish_mbarrier_init();
  }
  __syncthreads();
  sm90::let_next_kernel_start();
  sm90::wait_for_earlier_kernels();
  tile::TileScheduler items({Config::m, n, Config::k}, p.sizes, static_cast<int>(gridDim.x),
                            static_cast<int>(blockIdx.x), 0);
  if (group >= multiplying_groups) {
    if constexpr (is_split<T>) sm90::decrease_registers<loading_registers>();
    load_stages(s, p, items);
  } else {
    if constexpr (is_split<T>) sm90::increase_registers<multiplying_registers>();
    RegisterLoadsMultiplier<T, n> on{s, p, group};
    for (WorkItem item; items.next(item);) {
      on.multiply_item(item);
      on.store(item);
    }
  }
}

// Adds the sums of all splits and applies the epilogue. A block has 128 columns of a row; its eight warps divide the
// splits, and their sums are added in the order of the warps.
constexpr int adding_warps = 8, added_columns = 128;
__global__ void __launch_bounds__(adding_warps * 32)
    add_splits_kernel(const float* from, Index row_floats, Index split_floats, int splits,
                      const __grid_constant__ StridedOutput d, Index segments) {
  device::start_after_earlier_kernels();
  __shared__ float4 warp_sums[adding_warps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (Index i = blockIdx.x; i < segments; i += gridDim.x) {
    const Index across = (row_floats + added_columns - 1) / added_columns, line = i / across,
                col = i % across * added_columns;
    const float* const at = from + line * row_floats + col + lane * 4;
    float4 sum = {0, 0, 0, 0};
    if (col + lane * 4 < row_floats) {
#pragma unroll 8
      for (int split = warp; split < splits; split += adding_warps) {
        const float4 x = __ldcg(reinterpret_cast<const float4*>(at + split * split_floats));
        sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
      }
    }
    warp_sums[warp][lane] = sum;
    __syncthreads();
    if (threadIdx.x < added_columns && col + threadIdx.x < d.cols) {
      float total = 0;
#pragma unroll
      for (int w = 0; w < adding_warps; ++w) total += reinterpret_cast<const float*>(warp_sums[w])[threadIdx.x];
      using OneElement = sm90::EpilogueRun<1, sm90::RunDirection::row>;
      sm90::apply_and_store(d, sm90::EpilogueVector<1>{{total}},
                            OneElement{line % d.rows, col + threadIdx.x, line / d.rows, 1});
    }
    __syncthreads();
  }
}

LoadedOperand to_loaded_operand(const TileOperand& x, std::int64_t batch) {
  return {x.data,
          x.line_stride,
          x.batch_stride,
          static_cast<int>(x.extent),
          x.major == Major::k,
          choose_register_loads(x, batch)};
}

template <class T, std::size_t index>
cudaError_t launch_config(const RegisterLoadsArgs& args, int blocks, cudaStream_t stream) {
  constexpr int n = register_loads_configs[index].n;
  constexpr auto kernel = register_loads_kernel<T, n>;
  constexpr int bytes = shared_bytes<T, n>;
  static_assert(bytes <= tile::max_shared_bytes, "the ring exceeds a block's shared memory: use fewer stages");
  if (const cudaError_t e = device::allow_shared_memory<kernel>(bytes); e != cudaSuccess) return e;
  const device::LaunchShape shape{.blocks = blocks, .threads = block_threads, .shared_bytes = bytes};
  return device::launch_dependent(kernel, shape, stream, args);
}

}  // namespace

Status multiply_with_register_loads(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan,
                                    float* sums, cudaStream_t stream) {
  const StridedOutput d{t.d, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride, output};
  const Index row_floats = split_row_floats(t), matrix_floats = t.size.m * row_floats;
  RegisterLoadsArgs args{.a = to_loaded_operand(plan.swapped_tile ? t.b : t.a, t.batch),
                         .b = to_loaded_operand(plan.swapped_tile ? t.a : t.b, t.batch),
                         .sizes = {.m = static_cast<int>(plan.swapped_tile ? t.size.n : t.size.m),
                                   .n = static_cast<int>(plan.swapped_tile ? t.size.m : t.size.n),
                                   .k = static_cast<int>(t.size.k),
                                   .batch = static_cast<int>(t.batch),
                                   .splits = plan.splits,
                                   .raster_rows = plan.raster_rows},
                         .swap = plan.swapped_tile,
                         .d = d,
                         .split_floats = t.batch * matrix_floats};
  if (plan.splits > 1) {
    args.d = {sums, t.size.m, t.size.n, row_floats, matrix_floats, {}};
    args.d.target.format = tile::StorageFormat::f32;
    args.d.target.aligned_fours = true;
    args.d.target.alpha = 1;
  }
  const auto launch = [&]<class T, std::size_t... i>(std::index_sequence<i...>) {
    cudaError_t e = device::kernel_absent;
    ((static_cast<int>(i) == plan.config ? void(e = launch_config<T, i>(args, plan.blocks, stream)) : void()), ...);
    return device::to_status(e, "launching the product");
  };
  const auto launch_type = [&]<class T>() {
    constexpr std::size_t compiled = device::has_all_kernels ? register_loads_configs.size() : 1;
    return launch.template operator()<T>(std::make_index_sequence<compiled>());
  };
  RIDGE_TRY_STATUS(t.a.dtype == DType::tf32 ? launch_type.template operator()<Tf32>()
                                            : StoredFloats::dispatch_or_error("a product", t.a.dtype, launch_type));
  if (plan.splits == 1) return Done{};
  const Index segments = t.batch * t.size.m * ceil_div(row_floats, Index{added_columns});
  const device::LaunchShape shape{.blocks = std::min<Index>(segments, 16 * device::multiprocessor_count()),
                                  .threads = adding_warps * 32};
  return device::to_status(device::launch_dependent(add_splits_kernel, shape, stream, static_cast<const float*>(sums),
                                                    row_floats, args.split_floats, plan.splits, d, segments),
                           "launching the sum of the splits");
}

}  // namespace ridge::ops::cuda
