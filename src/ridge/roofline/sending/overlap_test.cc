#include "ridge/roofline/sending/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

// Simulates chunks: each is sent after the preceding one, and computed when it has arrived and the preceding one is
// computed.
double simulate_chunks(const OverlapTimes& b, std::int64_t n) {
  const auto chunks = static_cast<double>(n);
  double there = 0, done = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    there += b.message_latency_s + b.transfer_s / chunks;
    done = std::max(done, there) + std::max(b.math_s / chunks, b.chunked_memory_s / chunks + b.repeated_memory_s) +
           b.launch_s;
  }
  return done;
}

struct Random {
  std::mt19937 engine;
  double time() { return std::pow(10.0, std::uniform_real_distribution<double>(-7, -2)(engine)); }
  bool coin() { return (engine() & 1U) != 0; }
  OverlapTimes random_times() {
    return {.math_s = time(),
            .chunked_memory_s = time(),
            .repeated_memory_s = coin() ? time() : 0,
            .launch_s = coin() ? time() / 30 : 0,
            .transfer_s = time(),
            .message_latency_s = coin() ? time() / 30 : 0};
  }
};

// The closed form equals the simulation, and some number of chunks is faster if and only if two are.
TEST(Overlap, equals_a_chunk_by_chunk_simulation) {
  int pays = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random{std::mt19937(seed)};
    const OverlapTimes b = random.random_times();
    const double in_turn = b.total_seconds(1);
    bool some = false;
    for (std::int64_t n = 1; n <= max_chunks; ++n) {
      ASSERT_NEAR(b.total_seconds(n), simulate_chunks(b, n), 1e-9 * in_turn * static_cast<double>(n)) << seed;
      some = some || b.total_seconds(n) < in_turn * (1 - 1e-12);
    }
    ASSERT_EQ(b.is_faster_in_chunks(), some) << seed;
    const ChunkChoice best = choose_chunks(b, max_chunks);
    for (std::int64_t n = 1; n <= max_chunks; ++n) ASSERT_LE(best.seconds, b.total_seconds(n));
    ASSERT_EQ(best.seconds, b.total_seconds(best.count));
    pays += some ? 1 : 0;
  }
  EXPECT_GT(pays, 1000);
  EXPECT_LT(pays, 9000);
}

// Without memory time: two latencies of a message, two launches.
TEST(Overlap, gains_if_transfer_and_compute_exceed_two_overheads) {
  OverlapTimes b{.math_s = 1e-3, .launch_s = 1e-5, .transfer_s = 2.01e-5, .message_latency_s = 4.99e-4};
  EXPECT_TRUE(b.is_faster_in_chunks());
  b.message_latency_s = 5.01e-4;
  EXPECT_FALSE(b.is_faster_in_chunks());
  b.message_latency_s = 0;
  b.transfer_s = 1.99e-5;
  EXPECT_FALSE(b.is_faster_in_chunks());
  EXPECT_EQ(choose_chunks(b, max_chunks).count, 1);
}

// Chunks are faster from the reported size on and not below it; finds the first such size one by one.
TEST(Overlap, finds_the_size_from_which_chunks_are_faster) {
  int inside = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random{std::mt19937(seed)};
    const OverlapTimes row = [&] {
      OverlapTimes b = random.random_times();
      for (double* each : {&b.math_s, &b.chunked_memory_s, &b.transfer_s}) *each /= 100;
      return b;
    }();
    const auto rows = [&](std::int64_t r) {
      OverlapTimes b = row;
      for (double* each : {&b.math_s, &b.chunked_memory_s, &b.transfer_s}) *each *= static_cast<double>(r);
      return b;
    };
    const auto from = min_size_for_chunks(rows(16), 16);
    std::int64_t first = 2;
    while (first < 300 && !rows(first).is_faster_in_chunks()) ++first;
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

Machine make_linked_machine() {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e14}}, 1e13, 1e12);
  machine.links.push_back({.name = "nvlink", .bandwidth = testing::make_number(1e10), .topology = Topology::switched});
  machine.links.back().count = testing::make_number(4);
  machine.links.back().latency = testing::make_number(1e-6);
  machine.numbers["launch_s"] = testing::make_number(2e-6);
  return machine;
}

std::vector<std::string> descriptions(const std::string& program, const Bindings& sizes,
                                      Machine machine = make_linked_machine()) {
  const auto found = explain(parse(program).value(), machine, sizes);
  std::vector<std::string> out;
  for (const Overlap& overlap : found.value().overlaps) out.push_back(describe_overlap(overlap));
  return out;
}

TEST(Overlap, covers_gathered_operands_scattered_and_reduced_results) {
  using Lines = std::vector<std::string>;
  const std::string gathered = "mesh X = 4\nx: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g";
  // 2*8192*4096*16384/4/1e14 s of math and 3/4*2*4096*16384/4e10 s of sending; along F, which both keep.
  EXPECT_EQ(descriptions(gathered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}),
            Lines{"y after all-gather over X of g: 5.268 ms in sequence, 2.892 ms in 35 chunks along F; chunks are "
                  "faster from F = 154"});
  const std::string scattered = "mesh X = 4\nx: bf16[B, D_X]   w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w";
  EXPECT_EQ(descriptions(scattered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}).size(), 1U);
  const std::string separate = "mesh X = 4\nx: bf16[B, D_X]   w: bf16[D_X, F]\np[B, F]{U_X} = x * w\ny: bf16[B, F] = p";
  const auto explained =
      explain(parse(separate).value(), make_linked_machine(), {{"B", 8192}, {"D", 4096}, {"F", 16384}});
  ASSERT_EQ(explained->overlaps.size(), 1U);
  EXPECT_EQ(explained->overlaps[0].product, "p");
  EXPECT_FALSE(explained->overlaps[0].gathers_operand);
  EXPECT_EQ(explained->overlaps[0].collective, "all-reduce over X");
  Machine silent = make_linked_machine();
  silent.links[0].latency.reset();
  EXPECT_EQ(descriptions(scattered, {{"B", 8192}, {"D", 4096}, {"F", 16384}}, silent),
            Lines{"y before its reduce-scatter over X: 7.784 ms in sequence; the message latency is not on record"});
}

// The product keeps no dimension of a gathered vector; and without sizes there are no times.
TEST(Overlap, is_empty_without_chunks_or_times) {
  EXPECT_TRUE(
      descriptions("mesh X = 4\nx: bf16[B, D]   v: bf16[D_X]\ng[D] = v\ny: bf16[B] = x * g", {{"B", 8}, {"D", 64}})
          .empty());
  EXPECT_TRUE(
      descriptions("mesh X = 4\nx: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g", {{"D", 64}})
          .empty());
  EXPECT_TRUE(descriptions("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 8}, {"D", 64}, {"F", 64}}).empty());
}

}  // namespace
}  // namespace ridge
