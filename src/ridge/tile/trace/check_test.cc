// Checks that every kind of matmul kernel config is free of errors under a thousand shuffled schedules: all ring
// depths, one and two consumers, cooperative and ping-pong, split-K, clusters, prefetched constants, bulk and thread
// stores, tiles that end at any slot of the ring, and pipelines of a single stage.
#include "ridge/tile/trace/check.h"

#include <gtest/gtest.h>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
namespace {

using ops::Matmul, ops::MatmulConfig;

constexpr MatmulConfig base(int stages, int consumers, Roles roles) {
  return {.m = 64 * consumers, .n = 64, .k = 64, .stages = stages, .consumers = consumers, .roles = roles};
}
constexpr MatmulConfig wide(MatmulConfig c, int m, int n, int staging) {
  c.m = m;
  c.n = n;
  c.staging = staging;
  return c;
}
constexpr MatmulConfig swapped(MatmulConfig c) {
  c.swap = true;
  c.n = 16;
  return c;
}
constexpr MatmulConfig clustered(MatmulConfig c, int m, int n) {
  c.cluster_m = m;
  c.cluster_n = n;
  return c;
}

template <MatmulConfig config> void expect_no_error(const RecordOptions& options, int schedules = 1000) {
  const CheckResult v = check_schedules(record_program<Matmul<config, Bf16, Bf16, Bf16>>(options), schedules);
  EXPECT_EQ(v.first_error, "") << options.kernel;
  EXPECT_EQ(v.schedules, schedules);
}

// Runs three tiles whose stages end at different slots; a pipeline of one stage; two splits of k in two blocks.
template <MatmulConfig config> void expect_no_error_in_any_shape() {
  const std::string name = "matmul with " + std::to_string(config.stages) + " slots";
  const int m = 3 * config.m, n = config.n;
  expect_no_error<config>({.kernel = name, .sizes = {.m = m, .n = n, .k = 64 * (config.stages + 1)}});
  expect_no_error<config>({.kernel = name + ", one stage", .sizes = {.m = m, .n = n, .k = 1}});
  expect_no_error<config>(
      {.kernel = name + ", early", .sizes = {.m = m, .n = n, .k = 130}, .prefetch_constants = true});
  expect_no_error<config>(
      {.kernel = name + ", two splits", .sizes = {.m = m, .n = n, .k = 192, .splits = 2}, .blocks = 2});
}

TEST(Check, OneConsumerHasNoErrorAtAnyDepth) {
  expect_no_error_in_any_shape<base(2, 1, Roles::cooperative)>();
  expect_no_error_in_any_shape<base(3, 1, Roles::cooperative)>();
  expect_no_error_in_any_shape<base(7, 1, Roles::cooperative)>();
}
TEST(Check, TwoConsumersHaveNoErrorAtAnyDepth) {
  expect_no_error_in_any_shape<base(2, 2, Roles::cooperative)>();
  expect_no_error_in_any_shape<base(4, 2, Roles::cooperative)>();
  expect_no_error_in_any_shape<base(5, 2, Roles::cooperative)>();
}
TEST(Check, PingPongHasNoErrorAtAnyDepth) {
  expect_no_error_in_any_shape<base(2, 2, Roles::pingpong)>();
  expect_no_error_in_any_shape<base(3, 2, Roles::pingpong)>();
  expect_no_error_in_any_shape<base(6, 2, Roles::pingpong)>();
}
TEST(Check, OneToThreeOutputBuffersHaveNoError) {
  const ProductShape sizes{.m = 512, .n = 160, .k = 128};
  expect_no_error<wide(base(3, 2, Roles::cooperative), 256, 160, 1)>({.kernel = "one buffer", .sizes = sizes});
  expect_no_error<wide(base(3, 2, Roles::pingpong), 128, 160, 3)>({.kernel = "three buffers", .sizes = sizes});
  expect_no_error<swapped(base(3, 2, Roles::cooperative))>(
      {.kernel = "swapped", .sizes = {.m = 256, .n = 16, .k = 200}});
  expect_no_error<wide(base(3, 2, Roles::pingpong), 128, 128, 2)>(
      {.kernel = "threads write the output", .sizes = sizes, .bulk = false});
}
TEST(Check, MulticastClustersHaveNoError) {
  const ProductShape sizes{.m = 512, .n = 256, .k = 320};
  expect_no_error<clustered(base(3, 2, Roles::cooperative), 2, 1)>({.kernel = "2 x 1", .sizes = sizes, .blocks = 2},
                                                                   300);
  expect_no_error<clustered(base(2, 1, Roles::cooperative), 1, 2)>({.kernel = "1 x 2", .sizes = sizes, .blocks = 2},
                                                                   300);
  expect_no_error<clustered(base(4, 2, Roles::pingpong), 2, 1)>({.kernel = "ping-pong", .sizes = sizes, .blocks = 2},
                                                                300);
}
TEST(Check, MoreSplitsThanBlocksHaveNoError) {
  const ProductShape sizes{.m = 128, .n = 128, .k = 448, .splits = 7};
  expect_no_error<base(3, 2, Roles::cooperative)>({.kernel = "7 splits", .sizes = sizes, .blocks = 3}, 300);
  expect_no_error<base(3, 2, Roles::pingpong)>({.kernel = "7 splits, ping-pong", .sizes = sizes, .blocks = 2}, 300);
}
TEST(Check, CooperativeSplitKHasNoError) {
  const ProductShape sizes{.m = 128, .n = 64, .k = 448, .splits = 3, .split_mode = SplitMode::cooperative_split_k};
  expect_no_error<base(3, 2, Roles::cooperative)>({.kernel = "3 splits", .sizes = sizes, .blocks = 3}, 300);
  expect_no_error<base(3, 2, Roles::pingpong)>({.kernel = "3 splits, ping-pong", .sizes = sizes, .blocks = 3}, 300);
  expect_no_error<clustered(base(3, 2, Roles::cooperative), 2, 1)>(
      {.kernel = "2 splits of pairs",
       .sizes = {.m = 256, .n = 128, .k = 448, .splits = 2, .split_mode = SplitMode::cooperative_split_k},
       .blocks = 4},
      300);
}
TEST(Check, ClusterSplitKHasNoError) {
  const ProductShape sizes{.m = 128, .n = 64, .k = 448, .splits = 3, .split_mode = SplitMode::cluster_split_k};
  expect_no_error<base(3, 2, Roles::cooperative)>({.kernel = "3 blocks", .sizes = sizes, .blocks = 3}, 300);
  expect_no_error<base(4, 1, Roles::cooperative)>(
      {.kernel = "a consumer",
       .sizes = {.m = 64, .n = 64, .k = 448, .splits = 4, .split_mode = SplitMode::cluster_split_k},
       .blocks = 4},
      300);
}
TEST(Check, StreamKHasNoError) {
  const ProductShape sizes{.m = 128, .n = 384, .k = 320, .split_mode = SplitMode::stream_k};
  expect_no_error<base(3, 2, Roles::cooperative)>({.kernel = "2 runs", .sizes = sizes, .blocks = 2}, 300);
  expect_no_error<base(3, 2, Roles::cooperative)>({.kernel = "7 runs", .sizes = sizes, .blocks = 7}, 300);
  expect_no_error<base(2, 2, Roles::pingpong)>({.kernel = "4 runs, ping-pong", .sizes = sizes, .blocks = 4}, 300);
}
TEST(Check, RejectsTooLongPrograms) {
  const RecordedProgram p = record_program<Matmul<base(2, 1, Roles::cooperative), Bf16, Bf16, Bf16>>(
      {.kernel = "long", .sizes = {.m = 64, .n = 64, .k = 64 * 2000}});
  EXPECT_EQ(check_schedule(p, 0),
            "long: too long to check: 8002 asynchronous operations, expected at most 2976; check fewer stages");
}

}  // namespace
}  // namespace ridge::tile::trace
