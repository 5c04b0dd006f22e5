// Tests the AMX code on any CPU: the register block uses tiles in plain C++ and is run by the schedule, the worker and
// the matmul kernel. Sizes are near multiples of a tile, NaN surrounds the operands, and values around D must not
// change.
#include "ridge/tile/cpu/tiles_skinny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ridge/ops/product/matmul.h"
#include "ridge/tile/cpu/pack.h"
#include "ridge/tile/cpu/run_matmul.h"

namespace ridge::tile::cpu {
namespace {

thread_local TileShapes shapes;
thread_local unsigned char tiles[8][tile_rows][tile_bytes];
thread_local bool configured = false;

struct PlainTiles {
  static constexpr int lanes = 16;
  static void configure(const TileShapes& s) {
    shapes = s;
    configured = true;
    std::memset(tiles, 0, sizeof tiles);
  }
  static void release() { configured = false; }
  template <int t> static void zero() { std::memset(tiles[t], 0, sizeof tiles[t]); }
  template <int t> static void load(const void* p, Index stride) {
    ASSERT_TRUE(configured && shapes.rows[t] > 0 && shapes.bytes[t] > 0) << "tile " << t;
    zero<t>();
    for (int i = 0; i < shapes.rows[t]; ++i)
      std::memcpy(tiles[t][i], static_cast<const char*>(p) + i * stride, shapes.bytes[t]);
  }
  template <int t> static void store(void* p, Index stride) {
    for (int i = 0; i < shapes.rows[t]; ++i)
      std::memcpy(static_cast<char*>(p) + i * stride, tiles[t][i], shapes.bytes[t]);
  }
  template <int c, int a, int b> static void add_product() {
    ASSERT_EQ(shapes.bytes[a], 4 * shapes.rows[b]);  // the CPU traps if shapes do not match
    ASSERT_EQ(shapes.rows[a], shapes.rows[c]);
    ASSERT_EQ(shapes.bytes[b], shapes.bytes[c]);
    for (int i = 0; i < shapes.rows[c]; ++i)
      for (int j = 0; j < shapes.bytes[c] / 4; ++j)
        for (int k = 0; k < shapes.rows[b]; ++k) {
          Bf16 left[2], right[2];
          float sum = 0;
          std::memcpy(left, tiles[a][i] + 4 * k, 4);
          std::memcpy(right, tiles[b][k] + 4 * j, 4);
          std::memcpy(&sum, tiles[c][i] + 4 * j, 4);
          sum += to_float(left[0]) * to_float(right[0]) + to_float(left[1]) * to_float(right[1]);
          std::memcpy(tiles[c][i] + 4 * j, &sum, 4);
        }
  }
  template <int t> static void load_past_l1(const void* p, Index stride) { load<t>(p, stride); }
  static void order_stores() {}
  static void stream_row(Unit* to, const Unit* from) { std::memcpy(to, from, 128); }
  static void store_transposed(const Unit* tile, Unit* c, Index c_stride, int rows, int cols, bool add) {
    const auto sum = [](Unit x) { return std::bit_cast<float>(x); };
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        Unit& to = c[i * c_stride + j];
        to = std::bit_cast<Unit>(sum(tile[j * tile_rows + i]) + (add ? sum(to) : 0));
      }
  }
};

// Packs to [steps][width] by pack.h, padded to full blocks. A left operand is then transposed block by block.
template <void (*pack)(const PackArgs&), bool left> void pack_tiles(const PackArgs& x) {
  const Index units = (x.k + 1) / 2, padded_units = ceil_div(units, 16) * 16;
  std::vector<Unit> steps(padded_units * x.width);
  PackArgs plain = x;
  plain.out = steps.data();
  pack(plain);
  for (Index s = 0; s < padded_units; ++s)
    for (Index i = 0; i < x.width; ++i)
      x.out[left ? (s / 16 * x.width + i) * 16 + s % 16 : s * x.width + i] = steps[s * x.width + i];
}
struct TestTag {};
template <bool left> constexpr Packers tile_packers{pack_tiles<pack_along_k<TestTag, Bf16, Bf16>, left>,
                                                    pack_tiles<pack_across_k<TestTag, Bf16, Bf16>, left>};

constexpr Engine plain_tiles{
    .rows = 32,
    .cols = 32,
    .per_unit = 2,
    .step_multiple = 16,
    .row_multiple = 16,
    .left_in_place = true,
    .multiply_block = multiply_tile_block<PlainTiles>,
    .release_tiles = PlainTiles::release,
    .left_packers = tile_packers<true>,
    .right_packers = tile_packers<false>,
    .skinny_along_k = tile_skinny_along_k<PlainTiles, Bf16>,
    .skinny_left_packers = tile_packers<false>,
    .max_skinny_along_k_rows = max_skinny_tile_rows,
};

// A matrix [lines][k] surrounded by NaN, along k or across k.
struct Operand {
  std::vector<Bf16> values;
  Matrix matrix;
  float at(Index i, Index k) const { return static_cast<float>((i * 7 + k * 5) % 9 - 4); }
  Operand(Index lines, Index k, bool along) {
    constexpr Index around = 64;
    const Index gap = along ? 2 : 3, stride = (along ? k : lines) + gap, count = along ? lines : k;
    values.assign(count * stride + 2 * around, to_bf16(std::numeric_limits<float>::quiet_NaN()));
    for (Index i = 0; i < lines; ++i)
      for (Index j = 0; j < k; ++j) values[around + (along ? i * stride + j : j * stride + i)] = to_bf16(at(i, j));
    matrix = {values.data() + around, lines, k, along ? stride : 1, along ? 1 : stride, 0};
  }
};

std::string find_mismatch(const Engine& e, std::array<Index, 3> sizes, bool a_along, bool b_along, int threads) {
  const auto [m, n, k] = sizes;
  const Operand a(m, k, a_along), b(n, k, b_along);
  constexpr float canary = 12345;
  const Index stride = n + 5;
  std::vector<float> d((m + 2) * stride, canary);
  using Kernel = ops::Matmul<ops::cpu_kernel_configs[0], Bf16, Bf16, float, float>;
  Kernel::Globals g;
  static_cast<Matrix&>(g.a) = a.matrix;
  static_cast<Matrix&>(g.b) = b.matrix;
  g.d = {d.data() + stride, m, n, stride, 1, 0};
  run_kernel<Kernel>(g, {1, m, n, k}, e, threads);
  const std::string name = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                           (a_along ? " along" : " across") + (b_along ? " along" : " across");
  for (Index i = -1; i <= m; ++i)
    for (Index j = 0; j < stride; ++j) {
      float expected = canary;
      if (i >= 0 && i < m && j < n) {
        expected = 0;
        for (Index s = 0; s < k; ++s) expected += a.at(i, s) * b.at(j, s);
      }
      const float found = d[(i + 1) * stride + j];
      if (found != expected)
        return name + ": d[" + std::to_string(i) + "][" + std::to_string(j) + "] is " + std::to_string(found) +
               ", expected " + std::to_string(expected);
    }
  EXPECT_FALSE(configured) << name << ": tiles are left configured";
  return "";
}

TEST(AmxTiles, products_of_sizes_near_tile_edges_are_exact) {
  for (const Index m : {1, 5, 16, 17, 32, 33, 49, 65})
    for (const Index n : {1, 3, 16, 17, 31, 32, 33, 48, 97})
      for (const Index k : {1, 2, 31, 32, 33, 64, 95})
        for (int layouts = 0; layouts < 4; ++layouts)
          ASSERT_EQ(find_mismatch(plain_tiles, {m, n, k}, layouts % 2 == 0, layouts / 2 == 0, 1), "");
}

#if defined(__SANITIZE_THREAD__)
constexpr std::size_t count_of_sizes = 2;  // The larger ones take minutes
#else
constexpr std::size_t count_of_sizes = 6;
#endif
TEST(AmxTiles, products_with_stages_blocks_and_threads_are_exact) {
  // The last size has few rows, which read weights in place, in several k blocks.
  constexpr std::array<Index, 3> sizes[] = {{40, 1025, 97},  {61, 40, 4200},   {200, 70, 1100},
                                            {113, 330, 640}, {129, 257, 1111}, {20, 67, 16400}};
  for (std::size_t i = 0; i < count_of_sizes; ++i)
    for (int layouts = 0; layouts < 4; ++layouts)
      for (const int threads : {1, 2})
        ASSERT_EQ(find_mismatch(plain_tiles, sizes[i], layouts % 2 == 0, layouts / 2 == 0, threads), "");
}

// Computes D by calls of the register block alone. The 70 columns are split as by the worker: two full panels, then a
// partial panel.
std::vector<float> multiply_by_block(const Operand& a, const Operand& b, int rows, bool stream) {
  constexpr int cols = 70;
  constexpr Index deep = 32, stride = 80;
  std::vector<Unit> left(32 * 16), right(3 * 32 * 16);
  tile_packers<true>.along_k({a.matrix.data, a.matrix.row_stride, rows, rows, deep, left.data()});
  for (int j = 0; j < cols; j += 32)
    tile_packers<false>.along_k({static_cast<const Bf16*>(b.matrix.data) + j * b.matrix.row_stride, b.matrix.row_stride,
                                 std::min(32, cols - j), 32, deep, right.data() + j * 16});
  std::vector<float> d(32 * stride, -1);
  BlockArgs x;
  x.a = left.data();
  x.b = right.data();
  x.b_stride = 32;
  x.panel_stride = 32 * 16;
  x.steps = 16;
  x.c = d.data();
  x.c_stride = stride;
  x.rows = rows;
  x.cols = 32;
  x.panels = 2;
  x.left_packed = true;
  x.non_temporal = stream;
  multiply_tile_block<PlainTiles>(x);
  x.b = right.data() + 64 * 16;
  x.c = d.data() + 64;
  x.cols = cols - 64;
  x.panels = 1;
  multiply_tile_block<PlainTiles>(x);
  return d;
}

// Calls the skinny function directly, because the worker uses several groups of rows only for weights larger than the
// L2.
TEST(AmxTiles, skinny_products_with_row_groups_are_exact) {
  for (const int rows : {65, 80, 81, 129, 160})
    for (const Index n : {1, 16, 50})
      for (const Index k : {31, 96, 1100, 2900}) {  // the last has several k blocks
        const Operand a(rows, k, true), b(n, k, true);
        const int width = static_cast<int>(ceil_div(rows, 16)) * 16;
        std::vector<Unit> packed(ceil_div(k, 32) * 16 * width);
        tile_packers<false>.along_k({a.matrix.data, a.matrix.row_stride, rows, width, k, packed.data()});
        const Index stride = n + 3;
        std::vector<float> d(rows * stride, -1);
        SkinnyArgs x;
        x.a_by_rows = packed.data();
        x.b = b.matrix.data;
        x.b_stride = b.matrix.row_stride;
        x.k = k;
        x.n = n;
        x.rows = rows;
        x.c = d.data();
        x.c_stride = stride;
        tile_skinny_along_k<PlainTiles, Bf16>(x);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < stride; ++j) {
            float expected = j < n ? 0 : -1;
            for (Index q = 0; q < k && j < n; ++q) expected += a.at(i, q) * b.at(j, q);
            ASSERT_EQ(d[i * stride + j], expected) << rows << "x" << n << "x" << k << ": " << i << " " << j;
          }
      }
}

// Calls the block directly, because the worker stores non-temporally only from eight million elements on.
TEST(AmxTiles, non_temporal_stores_are_exact) {
  const Operand a(32, 32, true), b(70, 32, true);
  for (int rows = 1; rows <= 32; ++rows)
    for (const bool non_temporal : {false, true}) {
      const std::vector<float> d = multiply_by_block(a, b, rows, non_temporal);
      for (Index i = 0; i < 32; ++i)
        for (Index j = 0; j < 80; ++j) {
          float expected = i < rows && j < 70 ? 0 : -1;
          for (Index s = 0; s < 32 && i < rows && j < 70; ++s) expected += a.at(i, s) * b.at(j, s);
          ASSERT_EQ(d[i * 80 + j], expected) << rows << " rows, " << non_temporal << ": " << i << " " << j;
        }
    }
}

}  // namespace
}  // namespace ridge::tile::cpu
