#include "ridge/plan/as_metapipe.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

constexpr const char* mlp =
    "dims B = 256, D = 4096, F = 14336\n"
    "x: bf16[B, D]   gate: bf16[D, F]   up: bf16[D, F]   down: bf16[F, D]\n"
    "g[B, F] = x * gate\nu[B, F] = x * up\nh[B, F] = silu(g) * u\ny: bf16[B, D] = h * down";

Result<MappedProgram> mapped(std::string_view program, const Bindings& dims = {}, const MappingOptions& options = {},
                             std::string_view fabric = "sn40l") {
  return as_metapipe(*parse(program), dims, *fabric_named(fabric), options);
}

TEST(AsMetapipe, KeepsWeightsAndMovesOnlyWhatEntersAndLeaves) {
  const MappedProgram m = *mapped(mlp);
  EXPECT_EQ(m.rows, "B");
  EXPECT_EQ(m.tile, 16);  // 16 rows of 2·14336 bytes are the last power of two in 512 KiB
  EXPECT_EQ(m.tiles, 16);
  EXPECT_TRUE(m.weights_stay);
  EXPECT_EQ(m.weight_bytes, 3LL * 2 * 4096 * 14336);
  const double streamed = 2.0 * 2 * 256 * 4096;  // x and y
  EXPECT_EQ(m.calling[1].bytes, static_cast<double>(m.weight_bytes) + streamed);
  // Kernel by kernel g and u are written and read, h too, and x is read twice.
  EXPECT_EQ(m.calling[0].bytes, static_cast<double>(m.weight_bytes) + 2.0 * 256 * (3 * 4096 + 6 * 14336));
  EXPECT_EQ(m.calling[0].calls, 4);
  // 16 tiles through 4 stages: the pipe's filling costs what the bytes saved gain, until there are more tiles.
  EXPECT_GT(m.calling[1].seconds, m.calling[0].seconds);
  const MappedProgram longer = *mapped(mlp, {{"B", 4096}});
  EXPECT_LT(longer.calling[1].seconds, longer.calling[0].seconds);
}

TEST(AsMetapipe, GivesABufferATileMoreForEveryStageItPassesOver) {
  const MappedProgram m = *mapped(mlp);
  // x to g and u: 3 tiles; g to h: 3; u to h, h to y, y to store: 2.
  EXPECT_EQ(m.placement.buffer_bytes, 16 * 2 * (3 * 4096 + 3 * 14336 + 2 * 14336 + 2 * 14336 + 2 * 4096));
}

TEST(AsMetapipe, TakesTheTimeOfItsClosedForm) {
  const MappedProgram m = *mapped("x: f32[N]\ny: f32[N] = repeat(64, cos, x)", {{"N", 1 << 20}});
  EXPECT_EQ(m.placement.bottleneck, "memory");
  EXPECT_GE(static_cast<double>(m.run.cycles) / 1e9, 8.0 * (1 << 20) / 1.6e12);
}

TEST(AsMetapipe, ReadsWeightsAgainWhereTheyDoNotFit) {
  const MappedProgram m = *mapped(mlp, {}, {}, "plasticine");
  EXPECT_FALSE(m.weights_stay);
  EXPECT_EQ(m.calling[1].bytes,
            static_cast<double>(m.weight_bytes) * static_cast<double>(m.tiles) + 2.0 * 2 * 256 * 4096);
}

TEST(AsMetapipe, LoopsLayersInOneCall) {
  const MappedProgram m = *mapped(mlp, {}, {.layers = 32, .sync_seconds = 5e-6});
  EXPECT_EQ(m.calling[0].calls, 128);
  EXPECT_EQ(m.calling[1].calls, 32);
  EXPECT_EQ(m.calling[2].calls, 1);
  EXPECT_DOUBLE_EQ(m.calling[1].sync_seconds, 160e-6);
  EXPECT_LT(m.calling[2].seconds, m.calling[1].seconds);
}

TEST(AsMetapipe, RefusesWhatHasNoRowsOrNoSize) {
  EXPECT_EQ(mapped("x * y: bf16[N], bf16[N] -> f32[1]", {{"N", 64}}).error().message,
            "'Z' has no dimension to stream tiles along");
  EXPECT_EQ(
      mapped("x: bf16[K]  a: bf16[N, K]  b: bf16[K]\ns[K] = x + b\ny[N] = a * s", {{"N", 4}, {"K", 4}}).error().message,
      "'s' lacks the dimension N along which tiles stream");
  EXPECT_EQ(mapped(mlp, {}, {.layers = 0}).error().message, "expected 1 to 1048576 layers, found 0");
  EXPECT_EQ(mapped("x: f32[N]\ny: f32[N] = cos(x)", {{"N", 1 << 24}}, {.tile = 1}).error().text(),
            "expected at most 65536 tiles to clock, found 16777216 of 1 rows\n  hint: --tile 256\n");
  EXPECT_FALSE(mapped("x: f32[N]\ny: f32[N] = cos(x)").ok());
}

}  // namespace
}  // namespace ridge
