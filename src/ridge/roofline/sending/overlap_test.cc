#include "ridge/roofline/sending/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/toy_machine.h"

namespace ridge {
namespace {

// Chunk by chunk: each is sent when the one before it is, and computed when it is there and the one before is done.
double chunk_by_chunk(const Beside& b, std::int64_t n) {
  const auto chunks = static_cast<double>(n);
  double there = 0, done = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    there += b.wait_s + b.sending_s / chunks;
    done = std::max(done, there) + std::max(b.math_s / chunks, b.moved_s / chunks + b.kept_s) + b.launch_s;
  }
  return done;
}

struct Random {
  std::mt19937 engine;
  double time() { return std::pow(10.0, std::uniform_real_distribution<double>(-7, -2)(engine)); }
  bool coin() { return (engine() & 1U) != 0; }
  Beside beside() {
    return {.math_s = time(),
            .moved_s = time(),
            .kept_s = coin() ? time() : 0,
            .launch_s = coin() ? time() / 30 : 0,
            .sending_s = time(),
            .wait_s = coin() ? time() / 30 : 0};
  }
};

// The closed form is what happens, and whether any number of chunks pays is whether two do.
TEST(Overlap, is_what_happens_chunk_by_chunk) {
  int pays = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random{std::mt19937(seed)};
    const Beside b = random.beside();
    const double in_turn = b.seconds(1);
    bool some = false;
    for (std::int64_t n = 1; n <= most_chunks; ++n) {
      ASSERT_NEAR(b.seconds(n), chunk_by_chunk(b, n), 1e-9 * in_turn * static_cast<double>(n)) << seed;
      some = some || b.seconds(n) < in_turn * (1 - 1e-12);
    }
    ASSERT_EQ(b.chunks_pay(), some) << seed;
    const Chunks best = best_chunks(b, most_chunks);
    for (std::int64_t n = 1; n <= most_chunks; ++n) ASSERT_LE(best.seconds, b.seconds(n));
    ASSERT_EQ(best.seconds, b.seconds(best.count));
    pays += some ? 1 : 0;
  }
  EXPECT_GT(pays, 1000);
  EXPECT_LT(pays, 9000);
}

// Where memory does not count: two waits of a message, two launches.
TEST(Overlap, pays_above_two_waits_and_two_launches) {
  Beside b{.math_s = 1e-3, .launch_s = 1e-5, .sending_s = 2.01e-5, .wait_s = 4.99e-4};
  EXPECT_TRUE(b.chunks_pay());
  b.wait_s = 5.01e-4;
  EXPECT_FALSE(b.chunks_pay());
  b.wait_s = 0;
  b.sending_s = 1.99e-5;
  EXPECT_FALSE(b.chunks_pay());
  EXPECT_EQ(best_chunks(b, most_chunks).count, 1);
}

// From the size that is said on chunks pay, and below it they do not: the first that does, looked for one by one.
TEST(Overlap, says_from_which_size_chunks_pay) {
  int inside = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random{std::mt19937(seed)};
    const Beside row = [&] {
      Beside b = random.beside();
      for (double* each : {&b.math_s, &b.moved_s, &b.sending_s}) *each /= 100;
      return b;
    }();
    const auto rows = [&](std::int64_t r) {
      Beside b = row;
      for (double* each : {&b.math_s, &b.moved_s, &b.sending_s}) *each *= static_cast<double>(r);
      return b;
    };
    const auto from = chunks_pay_from(rows(16), 16);
    std::int64_t first = 2;
    while (first < 300 && !rows(first).chunks_pay()) ++first;
    if (first == 300) {
      ASSERT_TRUE(!from || *from >= 300) << seed;
      continue;
    }
    ASSERT_TRUE(from.has_value()) << seed;
    ASSERT_NEAR(static_cast<double>(*from), static_cast<double>(first), 0) << seed;
    inside += first > 2 ? 1 : 0;
  }
  EXPECT_GT(inside, 1000);
}

Machine toy() {
  Machine machine = testing::toy_machine({{DType::bf16, 1e14}}, 1e13, 1e12);
  machine.links.push_back({.name = "nvlink", .bandwidth = testing::number(1e10), .topology = Topology::switched});
  machine.links.back().count = testing::number(4);
  machine.links.back().latency = testing::number(1e-6);
  machine.numbers["launch_s"] = testing::number(2e-6);
  return machine;
}

std::vector<std::string> said(const std::string& program, const Bindings& sizes, Machine machine = toy()) {
  const auto found = explain(parse(program).value(), machine, sizes);
  std::vector<std::string> out;
  for (const Overlap& overlap : found.value().overlaps) out.push_back(text(overlap));
  return out;
}

TEST(Overlap, of_a_gathered_operand_a_scattered_and_an_added_result) {
  using Lines = std::vector<std::string>;
  const std::string gathered = "mesh X = 4\nx: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g";
  // 2*8192*4096*16384/4/1e14 s of math beside 3/4*2*4096*16384/4e10 s; along F, which both keep.
  EXPECT_EQ(said(gathered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}),
            Lines{"y behind all-gather over X of g: 5.268 ms in turn, 2.892 ms in 35 chunks along F; chunks pay from F "
                  "= 154 on"});
  const std::string scattered = "mesh X = 4\nx: bf16[B, D_X]   w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w";
  EXPECT_EQ(said(scattered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}).size(), 1U);
  const std::string apart = "mesh X = 4\nx: bf16[B, D_X]   w: bf16[D_X, F]\np[B, F]{U_X} = x * w\ny: bf16[B, F] = p";
  const auto explained = explain(parse(apart).value(), toy(), {{"B", 8192}, {"D", 4096}, {"F", 16384}});
  ASSERT_EQ(explained->overlaps.size(), 1U);
  EXPECT_EQ(explained->overlaps[0].product, "p");
  EXPECT_FALSE(explained->overlaps[0].before);
  EXPECT_EQ(explained->overlaps[0].collective, "all-reduce over X");
  Machine silent = toy();
  silent.links[0].latency.reset();
  EXPECT_EQ(said(scattered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}, silent),
            Lines{"y before its reduce-scatter over X: 7.784 ms in turn; what a message waits is not on record"});
}

// A gathered vector has nothing that the product keeps; and without sizes there are no times.
TEST(Overlap, says_nothing_where_there_is_nothing_to_say) {
  EXPECT_TRUE(
      said("mesh X = 4\nx: bf16[B, D]   v: bf16[D_X]\ng[D] = v\ny: bf16[B] = x * g", {{"B", 8}, {"D", 64}}).empty());
  EXPECT_TRUE(
      said("mesh X = 4\nx: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g", {{"D", 64}}).empty());
  EXPECT_TRUE(said("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 8}, {"D", 64}, {"F", 64}}).empty());
}

}  // namespace
}  // namespace ridge
