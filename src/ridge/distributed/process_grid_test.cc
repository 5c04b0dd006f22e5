#include "ridge/distributed/process_grid.h"

#include <gtest/gtest.h>

#include <random>

#include "ridge/distributed/redistribution.h"
#include "ridge/distributed/shard.h"

namespace ridge {
namespace {

Program product() { return parse("bf16[M, K] * bf16[K, N] -> bf16[M, N]").value(); }

TEST(ProcessGrid, best_grids_of_small_products) {
  EXPECT_EQ(best_grid(4, {64, 64, 64}), (ProcessGrid{1, 2, 2}));    // equal sides: the first of three grids
  EXPECT_EQ(best_grid(8, {64, 64, 64}), (ProcessGrid{2, 2, 2}));    // 3D
  EXPECT_EQ(best_grid(4, {64, 64, 8}), (ProcessGrid{2, 2, 1}));     // 2D
  EXPECT_EQ(best_grid(4, {1024, 64, 64}), (ProcessGrid{4, 1, 1}));  // 1D
  EXPECT_EQ(best_grid(4, {64, 64, 4096}), (ProcessGrid{1, 1, 4}));  // splits k only
  EXPECT_EQ(best_grid(7, {64, 64, 64}).device_count(), 7);
}

TEST(ProcessGrid, each_operand_is_gathered_along_the_side_that_it_lacks) {
  EXPECT_EQ(words_moved({2, 3, 5}, {7, 11, 13}), 2 * 7 * 13 + 1 * 13 * 11 + 4 * 7 * 11);
}

TEST(ProcessGrid, optimal_grid_splits_the_longest_sides) {
  const Machine machine = find_machine("h200").value();
  const auto expect_optimum = [&](const Bindings& sizes, std::int64_t devices, std::array<double, 3> grid) {
    const std::array<double, 3> found = distribute_product(product(), machine, sizes, devices)->optimal_grid;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(found[i], grid[i]) << devices;
  };
  expect_optimum({{"M", 8192}, {"N", 65536}, {"K", 8192}}, 4, {1, 4, 1});
  expect_optimum({{"M", 8192}, {"N", 65536}, {"K", 16384}}, 16, {1, 8, 2});
  expect_optimum({{"M", 8192}, {"N", 32768}, {"K", 16384}}, 64, {2, 8, 4});
}

// No grid of as many devices moves fewer words, and the lower bound is not above the words of the best grid.
TEST(ProcessGrid, best_grid_moves_the_fewest_words) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const auto side = [&] { return static_cast<std::int64_t>(1 + random() % (i % 2 == 0 ? 50 : 5000)); };
    const ProductSize size{side(), side(), side()};
    const auto devices = static_cast<std::int64_t>(1 + random() % 64);
    const std::int64_t words = words_moved(best_grid(devices, size), size);
    for (const ProcessGrid& grid : list_grids(devices))
      EXPECT_TRUE(grid.device_count() != devices || words <= words_moved(grid, size));
    const double bound = min_words_moved(static_cast<double>(size.m), static_cast<double>(size.n),
                                         static_cast<double>(size.k), static_cast<double>(devices));
    EXPECT_GE(static_cast<double>(words), bound * (1 - 1e-9)) << devices;
  }
}

// The layouts move as many words as the formula states, whether the grid divides the sizes or not: every word is stored
// once, and the words moved are those needed minus those present.
TEST(ProcessGrid, formula_equals_the_words_of_the_program) {
  const Machine machine = find_machine("h200").value();
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    const auto side = [&] { return static_cast<std::int64_t>(8 + random() % 90); };
    const Bindings sizes{{"M", side()}, {"N", side()}, {"K", side()}};
    const auto found = distribute_product(product(), machine, sizes, static_cast<std::int64_t>(1 + random() % 8));
    ASSERT_TRUE(found) << found.error().message;
    const Program program = parse(found->program_text).value();
    Mesh mesh;
    for (const MeshAxis& axis : program.mesh) mesh.axes.emplace_back(axis.name[0], *axis.size);
    const Bindings all = program.bind_sizes({}).value();
    std::int64_t words = 0;
    const auto add = [&](const Layout& now, const Tensor& then) {
      for (const RedistributionStep& move : plan_redistribution(now, layout_of(then))) {
        std::vector<std::int64_t> extents;
        for (const Axis& axis : then.axes) extents.push_back(all.at(axis.dim));
        words += words_moved(move, extents, mesh);
      }
    };
    for (const Statement& statement : program.statements) {
      const Tensor& result = program.tensors[statement.result()];
      if (const auto* e = std::get_if<Expression>(&statement.op)) {
        add(layout_of(program.tensors[e->nodes[0].tensor]), result);
        continue;
      }
      const auto& c = std::get<Contraction>(statement.op);
      Layout made = layout_of(result);
      for (std::string& letters : made.mesh_axes)
        std::erase_if(letters, [&](char l) { return c.partial.find(l) != std::string::npos; });
      made.partial_over = c.partial;
      add(made, result);
    }
    EXPECT_EQ(words, found->moved_words) << found->program_text;
  }
}

TEST(ProcessGrid, explains_words_above_the_bound) {
  const Machine machine = find_machine("h200").value();
  const DistributedProduct none{"", {2, 2, 1}, 8192, 8192, {2, 2, 1}};
  EXPECT_EQ(format_product(none), "grid 2 x 2 x 1: 8 192 words, the minimum");
  const DistributedProduct some{"", {5, 1, 1}, 16384, 15000, {2.236, 2.236, 1}};
  EXPECT_EQ(format_product(some),
            "grid 5 x 1 x 1: 16 384 words, 9.2 % above the bound, whose grid 2.24 x 2.24 x 1 is fractional");
  EXPECT_EQ(distribute_product(product(), machine, {}, 4).error().message,
            "dimension M has no value; comparing grids needs all sizes");
  EXPECT_EQ(distribute_product(parse("x: f32[N]\ny: f32[N] = cos(x)").value(), machine, {{"N", 8}}, 4).error().message,
            "expected an unsharded program of one product of two tensors");
}

}  // namespace
}  // namespace ridge
