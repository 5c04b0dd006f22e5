#include "ridge/distributed/grid.h"

#include <gtest/gtest.h>

#include <random>

#include "ridge/distributed/moves.h"
#include "ridge/distributed/shard.h"

namespace ridge {
namespace {

Program product() { return parse("bf16[M, K] * bf16[K, N] -> bf16[M, N]").value(); }

TEST(Grid, of_small_numbers) {
  EXPECT_EQ(best_grid(4, {64, 64, 64}), (Grid{1, 2, 2}));    // three sides alike: the first of three
  EXPECT_EQ(best_grid(8, {64, 64, 64}), (Grid{2, 2, 2}));    // 3D
  EXPECT_EQ(best_grid(4, {64, 64, 8}), (Grid{2, 2, 1}));     // 2D
  EXPECT_EQ(best_grid(4, {1024, 64, 64}), (Grid{4, 1, 1}));  // 1D
  EXPECT_EQ(best_grid(4, {64, 64, 4096}), (Grid{1, 1, 4}));  // k alone
  EXPECT_EQ(best_grid(7, {64, 64, 64}).devices(), 7);
}

// No grid of the same number of devices moves fewer words, nor does the bound say more than the grid moves.
TEST(Grid, moves_the_least_of_all_grids) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const auto side = [&] { return static_cast<std::int64_t>(1 + random() % (i % 2 == 0 ? 50 : 5000)); };
    const ProductSides size{side(), side(), side()};
    const auto devices = static_cast<std::int64_t>(1 + random() % 64);
    const std::int64_t words = words_moved(best_grid(devices, size), size);
    for (const Grid& grid : grids(devices)) EXPECT_TRUE(grid.devices() != devices || words <= words_moved(grid, size));
    const double bound = least_words(static_cast<double>(size.m), static_cast<double>(size.n),
                                     static_cast<double>(size.k), static_cast<double>(devices));
    EXPECT_GE(static_cast<double>(words), bound * (1 - 1e-9)) << devices;
  }
}

// Layouts say the same as the formula, whether the grid divides the sizes or not: every word lies once, and what moves
// is what is needed less what is there.
TEST(Grid, is_what_its_program_moves) {
  const Machine machine = find_machine("h200").value();
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    const auto side = [&] { return static_cast<std::int64_t>(8 + random() % 90); };
    const Bindings sizes{{"M", side()}, {"N", side()}, {"K", side()}};
    const auto found = spread_product(product(), machine, sizes, static_cast<std::int64_t>(1 + random() % 8));
    ASSERT_TRUE(found) << found.error().message;
    const Program program = parse(found->written).value();
    Mesh mesh;
    for (const MeshAxis& axis : program.mesh) mesh.axes.emplace_back(axis.name[0], *axis.size);
    const Bindings all = program.bind({}).value();
    std::int64_t words = 0;
    const auto add = [&](const Layout& now, const Tensor& then) {
      for (const Move& move : moves(now, layout_of(then))) {
        std::vector<std::int64_t> extents;
        for (const Axis& axis : then.axes) extents.push_back(all.at(axis.dim));
        words += words_moved(move, extents, mesh);
      }
    };
    for (const Statement& statement : program.statements) {
      const Tensor& result = program.tensors[static_cast<std::size_t>(statement.result())];
      if (const auto* e = std::get_if<Expression>(&statement.op)) {
        add(layout_of(program.tensors[static_cast<std::size_t>(e->nodes[0].tensor)]), result);
        continue;
      }
      const auto& c = std::get<Contraction>(statement.op);
      Layout made = layout_of(result);
      for (std::string& letters : made.cut)
        std::erase_if(letters, [&](char l) { return c.partial.find(l) != std::string::npos; });
      made.addends = c.partial;
      add(made, result);
    }
    EXPECT_EQ(words, found->words) << found->written;
  }
}

TEST(Grid, says_why_it_is_above_the_bound) {
  const Machine machine = find_machine("h200").value();
  const SpreadProduct none{"", {2, 2, 1}, 8192, 8192, {2, 2, 1}};
  EXPECT_EQ(text(none), "grid 2 x 2 x 1: 8 192 words, as few as any can");
  const SpreadProduct some{"", {5, 1, 1}, 16384, 15000, {2.236, 2.236, 1}};
  EXPECT_EQ(text(some),
            "grid 5 x 1 x 1: 16 384 words, 9.2 % above the bound, whose grid 2.24 x 2.24 x 1 has no whole numbers");
  EXPECT_EQ(spread_product(product(), machine, {}, 4).error().message,
            "dimension M has no value, and grids are compared by what they move");
  EXPECT_EQ(spread_product(parse("x: f32[N]\ny: f32[N] = cos(x)").value(), machine, {{"N", 8}}, 4).error().message,
            "expected a program of one product of two tensors, that is not split");
}

}  // namespace
}  // namespace ridge
