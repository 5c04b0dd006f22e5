#include "ridge/distributed/shard.h"

#include <gtest/gtest.h>

#include <map>

#include <chrono>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine make_test_machine(double capacity = 0) {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e14}}, 1e13, 1e12);
  if (capacity > 0) machine.memory[0].capacity = testing::make_number(capacity);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(1e10), .topology = Topology::switched});
  machine.links.back().count = testing::make_number(4);
  return machine;
}

constexpr const char* mlp =
    "x: bf16[B, D]   up: bf16[D, F]   down: bf16[F, D]\nh[B, F] = x * up\na[B, F] = gelu(h)\ny: bf16[B, D] = a * down";

ShardingReport search_text(const std::string& text, const Machine& machine, const Bindings& sizes,
                           const ShardOptions& options) {
  auto found = search_shardings(parse(text).value(), machine, sizes, options);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().to_string());
  return *std::move(found);
}

// With many rows, weights are replicated and rows split: nothing moves. With few rows, weights are split and rows move.
TEST(Shard, best_sharding_depends_on_the_number_of_rows) {
  const ShardingReport many =
      search_text(mlp, make_test_machine(), {{"B", 1 << 20}, {"D", 512}, {"F", 2048}}, {.chips = 8});
  EXPECT_EQ(format_partition(many.best[0].sharding.partitions[0]), "B over X");
  EXPECT_EQ(many.best[0].sharding.words, 0);
  EXPECT_EQ(many.best[0].sharding.network_s, 0);
  EXPECT_EQ(many.best.size(), 10U);
  const ShardingReport few = search_text(mlp, make_test_machine(), {{"B", 8}, {"D", 8192}, {"F", 32768}}, {.chips = 8});
  EXPECT_EQ(format_partition(few.best[0].sharding.partitions[0]), "F over X");
  EXPECT_EQ(format_partition(few.best[0].sharding.partitions[2]), "F over X");
  // The result's partial sums are reduce-scattered: 7 of 8 are sent for each of its words.
  EXPECT_EQ(few.best[0].sharding.words, 7 * 8 * 8192);
}

// Seven chips and eight rows, or 16381 columns: the largest shard decides, and every word moved is counted.
TEST(Shard, sizes_that_the_mesh_does_not_divide) {
  const ShardingReport many =
      search_text(mlp, make_test_machine(), {{"B", 1 << 20}, {"D", 512}, {"F", 2048}}, {.chips = 7});
  EXPECT_EQ(format_partition(many.best[0].sharding.partitions[0]), "B over X");
  const double part = (1 << 20) / 7 + 1, products = 2 * 2 * part * 512 * 2048 / 1e14;
  EXPECT_GT(many.best[0].sharding.compute_s, products);
  EXPECT_LT(many.best[0].sharding.compute_s, 1.2 * products);
  const ShardingReport few = search_text(mlp, make_test_machine(), {{"B", 8}, {"D", 8192}, {"F", 16381}}, {.chips = 7});
  EXPECT_EQ(format_partition(few.best[0].sharding.partitions[0]), "F over X");
  EXPECT_EQ(format_partition(few.best[0].sharding.partitions[2]), "F over X");
  EXPECT_EQ(few.best[0].sharding.words, 6 * 8 * 8192);
}

TEST(Shard, splits_only_divisible_dimensions) {
  const auto shares = [](const std::string& text, const Bindings& sizes, std::int64_t chips) {
    const Program program = parse(text).value();
    std::string out;
    for (const Partition& cuts : list_partitions(program, program.statements[0], {{{'X', chips}}}, sizes))
      out += (out.empty() ? "" : "; ") + ridge::format_partition(cuts);
    return out;
  };
  const std::string product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  EXPECT_EQ(shares(product, {{"B", 3}, {"D", 4}, {"F", 5}}, 4),
            "unsplit; D over X; F over X");  // three rows for four chips
  // Blocks of 32 elements that share a scale are not divided.
  const std::string blocks = "x: mxfp8[B, D]   w: bf16[D, F]\ny: bf16[B, F] = x * w";
  EXPECT_EQ(shares(blocks, {{"B", 5}, {"D", 160}, {"F", 5}}, 4), "unsplit; B over X; F over X");
  EXPECT_EQ(shares(blocks, {{"B", 5}, {"D", 256}, {"F", 5}}, 4), "unsplit; B over X; D over X; F over X");
  // The query heads of one key head are not divided either.
  const std::string heads = "dims H = 24, G = H/4\nq: bf16[B, H, E]   k: bf16[T, G, E]\ns[B, H, T] = q * k";
  EXPECT_EQ(shares(heads, {{"B", 1}, {"H", 24}, {"G", 6}, {"T", 2}, {"E", 2}}, 4), "unsplit");
  EXPECT_EQ(shares(heads, {{"B", 1}, {"H", 24}, {"G", 6}, {"T", 2}, {"E", 2}}, 3), "unsplit; H over X");
}

TEST(Shard, respects_the_memory_limit) {
  const Bindings sizes{{"B", 1 << 14}, {"D", 1024}, {"F", 4096}};
  const ShardingReport open = search_text(mlp, make_test_machine(), sizes, {.chips = 8});
  const double need = open.best[0].sharding.peak_bytes;
  const ShardingReport tight = search_text(mlp, make_test_machine(0.9 * need), sizes, {.chips = 8});
  ASSERT_FALSE(tight.best.empty());
  for (const RankedSharding& r : tight.best) EXPECT_LE(r.sharding.peak_bytes, 0.9 * need);
  EXPECT_GE(tight.best[0].sharding.total_seconds(), open.best[0].sharding.total_seconds());
  const ShardingReport none = search_text(mlp, make_test_machine(1000), sizes, {.chips = 8});
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(*none.unlimited_memory_s, 0);
}

// The program text parses, and explain() predicts the same network time for it.
TEST(Shard, program_text_is_readable_by_explain) {
  const std::vector<std::string> programs{
      mlp,
      "x: bf16[B, D]   w: bf16[D, F]   v: bf16[F, D]\nh[B, F] = x * w\ny: bf16[B, D] = h * v\nz: bf16[B, D] = x + y",
      "q: bf16[S, D]   k: bf16[T, D]\ns[S, T] = q * k\np: bf16[S, T] = softmax(s over T)"};
  for (const std::string& text : programs)
    for (const auto& [rows, chips] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {8, 16}, {512, 16}, {65536, 16}, {8, 7}, {509, 12}, {65537, 15}}) {
      Bindings sizes;
      for (const std::string& dim : parse(text).value().dim_names())
        sizes[dim] = dim == "B" || dim == "S" ? rows : 2048;
      const ShardingReport a = search_text(text, make_test_machine(), sizes, {.chips = chips});
      const auto again = parse(a.best[0].program_text);
      ASSERT_TRUE(again.ok()) << a.best[0].program_text << (again.ok() ? "" : again.error().to_string());
      const auto e = explain(*again, make_test_machine(), sizes, {}, Thresholds::skipped);
      ASSERT_TRUE(e.ok()) << a.best[0].program_text << (e.ok() ? "" : e.error().to_string());
      EXPECT_NEAR(e->total.time_network_s.value_or(0), a.best[0].sharding.network_s,
                  1e-9 * a.best[0].sharding.total_seconds() + 1e-12)
          << a.best[0].program_text;
    }
}

TEST(Shard, explains_slower_shardings) {
  const ShardingReport a = search_text(mlp, make_test_machine(), {{"B", 64}, {"D", 8192}, {"F", 32768}}, {.chips = 8});
  EXPECT_EQ(a.best[0].slower_because, "");
  for (std::size_t i = 1; i < a.best.size(); ++i) EXPECT_NE(a.best[i].slower_because, "");
}

// A small all-reduce takes at least 5 us, the library's measured time for a call.
TEST(Shard, uses_library_times) {
  Machine machine = make_test_machine();
  const auto best = [&] {
    return search_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", machine, {{"B", 2}, {"D", 4096}, {"F", 2}},
                       {.chips = 8})
        .best[0]
        .sharding;
  };
  EXPECT_LT(best().network_s, 1e-6);
  for (const auto& [key, value] : std::map<std::string, double>{{"collective_call_s", 5e-6},
                                                                {"collective_step_s", 1e-6},
                                                                {"collective_narrow_rate", 1e9},
                                                                {"collective_wide_rate", 1e9},
                                                                {"collective_wide_s", 0},
                                                                {"collective_copy_rate", 1e12}})
    machine.numbers[key] = testing::make_number(value);
  const Sharding timed = best();
  EXPECT_TRUE(timed.network_s == 0 || timed.network_s > 5e-6) << timed.network_s;
}

// Of shardings with equal times, only the one with the least memory is listed.
TEST(Shard, lists_equal_times_once) {
  const ShardingReport a =
      search_text(mlp, make_test_machine(), {{"B", 64}, {"D", 8192}, {"F", 32768}}, {.mesh = "X=4,Y=2"});
  for (std::size_t i = 1; i < a.best.size(); ++i)
    EXPECT_GT(a.best[i].sharding.total_seconds(), a.best[i - 1].sharding.total_seconds() * (1 + 1e-10));
}

TEST(Shard, rejects_invalid_requests) {
  const auto said = [](const std::string& text, const Bindings& sizes, const ShardOptions& options) {
    return search_shardings(parse(text).value(), make_test_machine(), sizes, options).error().message;
  };
  const Bindings sizes{{"B", 64}, {"D", 64}, {"F", 64}};
  EXPECT_EQ(said(mlp, {{"B", 64}, {"D", 64}}, {.chips = 8}),
            "dimension F has no value; comparing shardings needs all sizes");
  EXPECT_EQ(said(mlp, sizes, {.chips = 1}), "expected 2 to 4096 chips, found 1");
  EXPECT_EQ(said(mlp, sizes, {.mesh = "x=4"}),
            "expected mesh axes, capital letters each with a size from 1 to 4096, found 'x=4'");
  EXPECT_EQ(said(mlp, sizes, {.mesh = "B=4"}), "'B' is a dimension of the program and a mesh axis");
  EXPECT_EQ(said(mlp, sizes, {.chips = 8, .mesh = "X=4"}), "X=4 has 4 chips, --chips says 8");
  EXPECT_EQ(said("x: bf16[B_X]\ny: bf16[B_X] = cos(x)", {}, {.chips = 8}), "expected a program that is not sharded");
}

TEST(Shard, min_words_moved_of_a_product) {
  EXPECT_DOUBLE_EQ(min_words_moved(64, 64, 64, 1), 0);
  // A cube over 8 chips: each chip needs three faces of 32 x 32 words and has a part of each already.
  EXPECT_DOUBLE_EQ(min_words_moved(64, 64, 64, 8), 8 * (3 * 32 * 32 - 3 * 64 * 64 / 8.0));
  // One long side: only the small operand moves.
  EXPECT_DOUBLE_EQ(min_words_moved(1 << 20, 16, 8, 4), 4 * (16.0 * 8 - 16 * 8 / 4.0));
}

// Searches a Llama-3-70B layer (seven products and attention) on 64 chips and all meshes in well below a second.
TEST(Shard, large_layer_is_fast) {
  const std::string layer =
      "x: bf16[B, D]   norm1: bf16[D]   norm2: bf16[D]\n"
      "wq: bf16[D, G, R, E]   wk: bf16[D, G, E]   wv: bf16[D, G, E]   wo: bf16[G, R, E, D]\n"
      "gate: bf16[D, F]   up: bf16[D, F]   down: bf16[F, D]\n"
      "keys: bf16[B, G, T, E]   values: bf16[B, G, T, E]\n"
      "h[B, D] = rmsnorm(x over D) * norm1\nq[B, G, R, E] = h * wq\nk: bf16[B, G, E] = h * wk\n"
      "v: bf16[B, G, E] = h * wv\ns[B, G, R, T] = q * keys\np[B, G, R, T] = softmax(s * rsqrt(size(E)) over T)\n"
      "a[B, G, R, E] = p * values\no[B, D] = a * wo\ny[B, D] = x + o\nn[B, D] = rmsnorm(y over D) * norm2\n"
      "g[B, F] = n * gate\nu[B, F] = n * up\nm[B, F] = silu(g) * u\nw[B, D] = m * down\nz: bf16[B, D] = y + w";
  const Bindings sizes{{"B", 512}, {"D", 8192}, {"G", 8}, {"R", 8}, {"E", 128}, {"F", 28672}, {"T", 8192}};
  const ShardingReport a = search_text(layer, make_test_machine(), sizes, {.chips = 64});
  EXPECT_EQ(a.best.size(), 10U);
  EXPECT_EQ(a.meshes, 4);  // 64, 32 x 2, 16 x 4, 8 x 8
}

}  // namespace
}  // namespace ridge
