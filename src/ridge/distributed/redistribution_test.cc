#include "ridge/distributed/redistribution.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ridge/distributed/partition.h"
#include "ridge/distributed/testing/simulated_ranks.h"

namespace ridge {
namespace {

std::string describe_steps(const Layout& now, const Layout& then) {
  std::string out;
  for (const RedistributionStep& move : plan_redistribution(now, then))
    out += (out.empty() ? "" : ", ") + std::string(move.collective ? name(*move.collective) : "drop") + " " + move.over;
  return out;
}

TEST(Redistribution, plans_each_collective) {
  EXPECT_EQ(describe_steps({{"", ""}, "X"}, {{"", ""}}), "all-reduce X");
  EXPECT_EQ(describe_steps({{"", ""}, "X"}, {{"", "X"}}), "reduce-scatter X");
  EXPECT_EQ(describe_steps({{"X", ""}}, {{"", ""}}), "all-gather X");
  EXPECT_EQ(describe_steps({{"X", ""}}, {{"", "X"}}), "all-to-all X");
  EXPECT_EQ(describe_steps({{"", ""}}, {{"X", ""}}), "drop X");
  EXPECT_EQ(describe_steps({{"XY"}}, {{"YX"}}), "permute XY");
  EXPECT_EQ(describe_steps({{"XY"}}, {{"X"}}), "all-gather Y");
  EXPECT_EQ(describe_steps({{"XY"}}, {{"Y"}}), "permute XY, all-gather X");
  EXPECT_EQ(describe_steps({{"X", ""}, "Y"}, {{"", "Y"}}), "reduce-scatter Y, all-gather X");
  EXPECT_EQ(describe_steps({{"X", ""}}, {{"X", ""}}), "");
}

// An axis that is split already keeps its mesh axes outermost; the exchanged ones follow in the order that they had.
TEST(Redistribution, exchanges_onto_an_axis_that_is_split) {
  const auto layouts_after = [](const Layout& now, const Layout& then) {
    std::vector<std::vector<std::string>> out;
    for (const RedistributionStep& step : plan_redistribution(now, then)) out.push_back(step.after.mesh_axes);
    return out;
  };
  using Layouts = std::vector<std::vector<std::string>>;
  EXPECT_EQ(describe_steps({{"X", "Y"}}, {{"", "YX"}}), "all-to-all X");
  EXPECT_EQ(layouts_after({{"X", "Y"}}, {{"", "YX"}}), (Layouts{{"", "YX"}}));
  EXPECT_EQ(describe_steps({{"X", "Y"}}, {{"", "XY"}}), "all-to-all X, permute YX");
  EXPECT_EQ(layouts_after({{"X", "Y"}}, {{"", "XY"}}), (Layouts{{"", "YX"}, {"", "XY"}}));
  EXPECT_EQ(layouts_after({{"XZ", "Y"}}, {{"", "YXZ"}}), (Layouts{{"", "YXZ"}}));
  EXPECT_EQ(layouts_after({{"XZ", "Y"}}, {{"Z", "YX"}}), (Layouts{{"ZX", "Y"}, {"Z", "YX"}}));
}

TEST(Redistribution, permutation_moves_only_exchanged_shards) {
  const Mesh mesh{{{'X', 2}, {'Y', 2}}};
  const std::vector<RedistributionStep> all = plan_redistribution({{"XY"}}, {{"YX"}});
  EXPECT_EQ(words_moved(all[0], {8}, mesh), 4);  // two of four devices exchange two words each
}

struct Random {
  std::mt19937 engine;
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine); }

  Mesh mesh() {
    Mesh out;
    for (int i = 0, n = 1 + below(3); i < n; ++i) out.axes.emplace_back("XYZ"[i], 1 + below(4));
    return out;
  }
  Layout layout(const Mesh& mesh, std::size_t rank, bool has_partial_sums) {
    Layout out{.mesh_axes = std::vector<std::string>(rank)};
    std::string letters;
    for (const auto& axis : mesh.axes) letters += axis.first;
    std::shuffle(letters.begin(), letters.end(), engine);
    for (const char letter : letters) {
      const int assigned = below(static_cast<int>(rank) + 2);
      if (assigned < static_cast<int>(rank)) out.mesh_axes[assigned] += letter;
      if (assigned == static_cast<int>(rank) && has_partial_sums) out.partial_over += letter;
    }
    std::sort(out.partial_over.begin(), out.partial_over.end());
    return out;
  }
};

// For any two layouts, with equal or unequal shards: simulated ranks send the predicted number of words and end up with
// the right shards.
TEST(Redistribution, word_counts_equal_simulated_ranks) {
  for (unsigned seed = 0; seed < 7000; ++seed) {
    Random random{std::mt19937(seed)};
    const Mesh mesh = random.mesh();
    std::vector<std::int64_t> extents;
    for (int i = 0, n = 1 + random.below(3); i < n; ++i) extents.push_back(1 + random.below(n == 3 ? 6 : 12));
    const Layout now = random.layout(mesh, extents.size(), true), then = random.layout(mesh, extents.size(), false);
    std::vector<std::int64_t> value(
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>()));
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = random.below(1000);
    testing::SimulatedRanks ranks(mesh, extents);
    ranks.set_shards(now, value);
    for (const RedistributionStep& move : plan_redistribution(now, then))
      ASSERT_EQ(ranks.run_step(move), words_moved(move, extents, mesh)) << "seed " << seed;
    for (std::int64_t d = 0; d < mesh.devices(); ++d) {
      const std::vector<std::int64_t> mine = ranks.words_of_rank(then, d);
      ASSERT_EQ(ranks.rank_words(d).size(), mine.size()) << "seed " << seed;
      for (const std::int64_t w : mine) ASSERT_EQ(ranks.rank_words(d).at(w), value[w]) << "seed " << seed;
    }
  }
}

// A random product; each of its dimensions A, B, C, E has size 1, 2, 3, 4, 6 or 8.
struct Case {
  Program program;
  Bindings sizes;
};

Case random_product(Random& random) {
  std::string left, right, result;
  const auto add = [](std::string& to, char dim) { to += (to.empty() ? "" : ", ") + std::string(1, dim); };
  Case out;
  for (int i = 0, n = 2 + random.below(3); i < n; ++i) {
    const char dim = "ABCE"[i];
    const int kind = random.below(4);  // batch, free on the left, free on the right, contracted
    if (kind != 2) add(left, dim);
    if (kind != 1) add(right, dim);
    if (kind != 3) add(result, dim);
    out.sizes[std::string(1, dim)] = std::vector<int>{1, 2, 3, 4, 6, 8}[random.below(6)];
  }
  const auto some = [](const std::string& dims) { return dims.empty() ? "1" : dims; };
  out.program = parse("bf16[" + some(left) + "] * bf16[" + some(right) + "] -> bf16[" + some(result) + "]").value();
  return out;
}

// Returns random values of all words of a tensor.
std::vector<std::int64_t> random_words(const std::vector<std::int64_t>& extents, Random& random) {
  std::int64_t words = 1;
  for (const std::int64_t e : extents) words *= e;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < words; ++i) out.push_back(random.below(100));
  return out;
}

// Calls `use` with the word index of every point of the index space in each of the three tensors.
template <class Use> void for_each_point(const Case& c, const Use& use) {
  const auto& product = std::get<Contraction>(c.program.statements[0].op);
  std::vector<std::string> dims;
  for (const auto& [dim, size] : c.sizes) dims.push_back(dim);
  std::map<std::string, std::int64_t> at;
  std::int64_t points = 1;
  for (const auto& [dim, size] : c.sizes) points *= size;
  for (std::int64_t p = 0; p < points; ++p) {
    std::int64_t rest = p;
    for (const std::string& dim : dims) {
      at[dim] = rest % c.sizes.at(dim);
      rest /= c.sizes.at(dim);
    }
    const auto word = [&](int t) {
      std::int64_t out = 0;
      for (const Axis& axis : c.program.tensors[t].axes)
        out = out * axis_extent(axis, c.sizes) + (axis.is_named() ? at[axis.dim] : 0);
      return out;
    };
    use(word(product.left), word(product.right), word(product.result));
  }
}

// Any product on any mesh, for any layouts of operands and result: each device multiplies its own shards, and no words
// move besides those counted.
TEST(Redistribution, random_products_on_random_meshes) {
  int uneven = 0;  // number of cases with communication and unequal shards
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Random random{std::mt19937(seed)};
    const Mesh mesh = random.mesh();
    const Case c = random_product(random);
    const Statement& statement = c.program.statements[0];
    const auto& product = std::get<Contraction>(statement.op);
    const std::vector<Partition> all = list_partitions(c.program, statement, mesh, c.sizes);
    const Partition& cuts = all[random.below(static_cast<int>(all.size()))];
    const bool differ = std::any_of(
        cuts.begin(), cuts.end(), [&](const auto& cut) { return c.sizes.at(cut.first) % mesh.size(cut.second) != 0; });
    std::int64_t words = 0;
    std::vector<testing::SimulatedRanks> ranks;
    std::vector<std::vector<std::int64_t>> values;
    for (const int t : {product.left, product.right}) {
      const Tensor& tensor = c.program.tensors[t];
      const std::vector<std::int64_t> shape = tensor_extents(tensor, c.sizes);
      const std::vector<Layout> layouts = list_layouts(c.program, tensor, mesh, c.sizes);
      const Layout& now = layouts[random.below(static_cast<int>(layouts.size()))];
      ranks.emplace_back(mesh, shape);
      values.push_back(random_words(shape, random));
      ranks.back().set_shards(now, values.back());
      for (const RedistributionStep& move : plan_redistribution(now, operand_layout(c.program, statement, t, cuts))) {
        ASSERT_EQ(ranks.back().run_step(move), words_moved(move, shape, mesh)) << "seed " << seed;
        words += words_moved(move, shape, mesh);
      }
    }
    const Tensor& result = c.program.tensors[product.result];
    const std::vector<std::int64_t> shape = tensor_extents(result, c.sizes);
    testing::SimulatedRanks made(mesh, shape);
    std::map<std::int64_t, std::int64_t> expected;
    for_each_point(c, [&](std::int64_t l, std::int64_t r, std::int64_t y) {
      expected[y] += values[0][l] * values[1][r];
      for (std::int64_t d = 0; d < mesh.devices(); ++d)
        if (ranks[0].rank_words(d).contains(l) && ranks[1].rank_words(d).contains(r))
          made.rank_words(d)[y] += ranks[0].rank_words(d).at(l) * ranks[1].rank_words(d).at(r);
    });
    const std::vector<Layout> layouts = list_layouts(c.program, result, mesh, c.sizes);
    const Layout& then = layouts[random.below(static_cast<int>(layouts.size()))];
    for (const RedistributionStep& move : plan_redistribution(result_layout(c.program, statement, cuts), then))
      ASSERT_EQ(made.run_step(move), words_moved(move, shape, mesh)) << "seed " << seed;
    for (std::int64_t d = 0; d < mesh.devices(); ++d)
      for (const std::int64_t w : made.words_of_rank(then, d))
        ASSERT_EQ(made.rank_words(d).at(w), expected[w]) << "seed " << seed << ": " << format_partition(cuts);
    uneven += differ && words > 0 ? 1 : 0;
  }
  EXPECT_GT(uneven, 300);
}

}  // namespace
}  // namespace ridge
