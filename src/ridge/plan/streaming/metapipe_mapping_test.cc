#include "ridge/plan/streaming/metapipe_mapping.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ridge/base/file.h"

namespace ridge {
namespace {

constexpr const char* mlp =
    "dims B = 256, D = 4096, F = 14336\n"
    "x: bf16[B, D]   gate: bf16[D, F]   up: bf16[D, F]   down: bf16[F, D]\n"
    "g[B, F] = x * gate\nu[B, F] = x * up\nh[B, F] = silu(g) * u\ny: bf16[B, D] = h * down";

Result<MappedProgram> map_example(std::string_view program, const Bindings& dims = {},
                                  const MappingOptions& options = {}, std::string_view fabric = "sn40l") {
  return map_to_metapipe(*parse(program), dims, *find_fabric(fabric), options);
}

std::string load_example(const std::string& name) {
  return *read_file(std::string(RIDGE_SOURCE_DIR) + "/examples/" + name + ".ridge");
}

TEST(MetapipeMapping, ResidentWeightsAndOnlyInputsAndOutputsMove) {
  const MappedProgram mapping = *map_example(mlp);
  const MappedPass& m = mapping.passes.at(0);
  EXPECT_EQ(m.streamed_dim, "B");
  EXPECT_EQ(m.tile, 16);  // 16 rows of 2·14336 bytes are the last power of two in 512 KiB
  EXPECT_EQ(m.tiles, 16);
  EXPECT_TRUE(m.weights_resident);
  EXPECT_EQ(m.weight_bytes, 3LL * 2 * 4096 * 14336);
  const double streamed = 2.0 * 2 * 256 * 4096;  // x and y
  EXPECT_EQ(mapping.launch_modes[0].cost_of(CallMode::fused).bytes, static_cast<double>(m.weight_bytes) + streamed);
  // Kernel by kernel, g, u and h are written and read, and x is read twice.
  EXPECT_EQ(mapping.launch_modes[0].cost_of(CallMode::kernel_by_kernel).bytes,
            static_cast<double>(m.weight_bytes) + 2.0 * 256 * (3 * 4096 + 6 * 14336));
  EXPECT_EQ(mapping.launch_modes[0].cost_of(CallMode::kernel_by_kernel).calls, 4);
  // With 16 tiles and 4 stages the pipeline fill costs as much as the saved bytes gain; more tiles would change that.
  EXPECT_LT(mapping.launch_modes[0].speedup_over(CallMode::kernel_by_kernel, CallMode::fused), 1);
  EXPECT_GT(map_example(mlp, {{"B", 4096}})->launch_modes[0].speedup_over(CallMode::kernel_by_kernel, CallMode::fused),
            1);
}

TEST(MetapipeMapping, BufferHasOneMoreTilePerSkippedStage) {
  // x to g and u: 3 tiles; g to h: 3; u to h, h to y, y to store: 2.
  EXPECT_EQ(map_example(mlp)->passes[0].placement.buffer_bytes,
            16 * 2 * (3 * 4096 + 3 * 14336 + 2 * 14336 + 2 * 14336 + 2 * 4096));
  EXPECT_EQ(map_example(mlp, {}, {.buffer = {"h=5"}})->passes[0].placement.buffer_bytes,
            16 * 2 * (3 * 4096 + 3 * 14336 + 2 * 14336 + 5 * 14336 + 2 * 4096));
}

TEST(MetapipeMapping, ReadsWeightsForEveryTileIfTheyDoNotFit) {
  const MappedProgram m = *map_example(mlp, {}, {}, "plasticine");
  EXPECT_FALSE(m.passes[0].weights_resident);
  EXPECT_EQ(
      m.launch_modes[0].cost_of(CallMode::fused).bytes,
      static_cast<double>(m.passes[0].weight_bytes) * static_cast<double>(m.passes[0].tiles) + 2.0 * 2 * 256 * 4096);
}

TEST(MetapipeMapping, TakesLargerTilesIfWeightsAreReadAgain) {
  // A row of the scores takes 256 KiB, so that a PMU has 2 rows; the 940 MB of weights do not fit into 545 MB.
  const char* const attention =
      "x: bf16[S, D]   wq: bf16[D, H, E]   k: bf16[H, T, E]   v: bf16[H, T, E]   up: bf16[D, F]\n"
      "q[S, H, E] = x * wq\ns[S, H, T] = q * k\np[S, H, T] = softmax(s over T)\no[S, H, E] = p * v\n"
      "u: bf16[S, F] = x * up\nz: bf16[S, H, E] = o + q";
  const Bindings sizes{{"S", 2048}, {"T", 2048}, {"H", 64}, {"E", 128}, {"D", 8192}, {"F", 49152}};
  const MappedProgram best = *map_example(attention, sizes), small = *map_example(attention, sizes, {.tile = 2});
  const MappedPass& pass = best.passes.back();
  EXPECT_FALSE(pass.weights_resident);
  EXPECT_TRUE(pass.placement.fits);
  EXPECT_EQ(pass.tile, 256);
  const auto fused_seconds = [](const MappedProgram& m) { return m.launch_modes[0].cost_of(CallMode::fused).seconds; };
  EXPECT_LT(90 * fused_seconds(best), fused_seconds(small));
}

TEST(MetapipeMapping, StreamsAlongTheLongestOfEqualDimensions) {
  const std::string layer =
      "x: bf16[B, S, D]   w: bf16[D, F]   v: bf16[F, D]\nu[B, S, F] = x * w\ny: bf16[B, S, D] = u * v";
  EXPECT_EQ(map_example(layer, {{"B", 1}, {"S", 2048}, {"D", 64}, {"F", 8192}})->passes.at(0).streamed_dim, "S");
  EXPECT_EQ(map_example(layer, {{"B", 2048}, {"S", 1}, {"D", 64}, {"F", 8192}})->passes.at(0).streamed_dim, "B");
}

TEST(MetapipeMapping, ModesThatDoNotFitAreImpossible) {
  const MappedProgram fits = *map_example(mlp), tight = *map_example(mlp, {}, {.buffer = {"h=100000"}});
  EXPECT_FALSE(tight.passes[0].placement.fits);
  for (const CallMode calling : {CallMode::fused, CallMode::looped}) {
    EXPECT_TRUE(fits.launch_modes[0].cost_of(calling).is_possible);
    EXPECT_FALSE(tight.launch_modes[0].cost_of(calling).is_possible);
  }
  EXPECT_TRUE(tight.launch_modes[0].cost_of(CallMode::kernel_by_kernel).is_possible);
}

TEST(MetapipeMapping, LoopsLayersInOneCall) {
  const MappedProgram m = *map_example(mlp, {}, {.layers = 32, .sync_seconds = {0, 5e-6}});
  ASSERT_EQ(m.launch_modes.size(), 2U);
  EXPECT_EQ(m.launch_modes[1].cost_of(CallMode::kernel_by_kernel).calls, 128);
  EXPECT_EQ(m.launch_modes[1].cost_of(CallMode::fused).calls, 32);
  EXPECT_EQ(m.launch_modes[1].cost_of(CallMode::looped).calls, 1);
  EXPECT_DOUBLE_EQ(m.launch_modes[1].cost_of(CallMode::fused).sync_seconds, 160e-6);
  EXPECT_GT(m.launch_modes[1].speedup_over(CallMode::fused, CallMode::looped), 1);
  EXPECT_GT(m.launch_modes[1].speedup_over(CallMode::fused, CallMode::looped),
            m.launch_modes[0].speedup_over(CallMode::fused, CallMode::looped));
}

TEST(MetapipeMapping, StoresASumAfterTheLastTile) {
  const MappedProgram gda = *map_example(load_example("gda"));
  ASSERT_EQ(gda.passes.size(), 1U);
  EXPECT_EQ(gda.passes[0].streamed_dim, "R");
  EXPECT_EQ(gda.passes[0].placement.stages.size(), 5U);  // load, d, e, sigma, store
  // x, z and the labels are read, two means each stay resident, and sigma is stored once.
  EXPECT_EQ(gda.launch_modes[0].cost_of(CallMode::fused).bytes, 4.0 * (65536 * (96 + 96 + 1) + 4 * 96 + 96 * 96));
  const MappedProgram dot = *map_example("x * y: bf16[N], bf16[N] -> f32[1]", {{"N", 1 << 16}});
  EXPECT_EQ(dot.passes.at(0).streamed_dim, "N");
  EXPECT_EQ(dot.launch_modes[0].cost_of(CallMode::fused).bytes, 2.0 * 2 * (1 << 16) + 4);
}

TEST(MetapipeMapping, StatementsThatCannotStreamRunInAnEarlierPass) {
  EXPECT_EQ(map_example(load_example("attention"))->passes.at(0).streamed_dim, "H");  // y is the sum over the heads
  const MappedProgram one_head = *map_example(
      "q: bf16[S, E]  c: bf16[T, D]  wk: bf16[D, E]  v: bf16[T, E]\nk[T, E] = c * wk\ns[S, T] = q * k\n"
      "p[S, T] = softmax(s over T)\no[S, E] = p * v",
      {{"S", 64}, {"T", 64}, {"D", 32}, {"E", 32}});
  ASSERT_EQ(one_head.passes.size(), 2U);
  EXPECT_EQ(one_head.passes[0].streamed_dim, "T");
  EXPECT_EQ(one_head.passes[1].streamed_dim, "S");
  EXPECT_EQ(one_head.launch_modes[0].cost_of(CallMode::fused).calls, 2);
  EXPECT_EQ(one_head.launch_modes[0].cost_of(CallMode::looped).calls, 2);
  // Columns stream where the sum over rows is read; a softmax over all dimensions is one tile.
  EXPECT_EQ(map_example("x: f32[N, D]\nm[D] = mean(x over N)\ny: f32[N, D] = x - m", {{"N", 64}, {"D", 8}})
                ->passes[0]
                .streamed_dim,
            "D");
  EXPECT_EQ(map_example("x: f32[N]\ny: f32[N] = softmax(x over N)", {{"N", 64}})->passes[0].streamed_dim, "");
}

// Returns each pass as "dimension: results of its statements".
std::string describe_passes(const std::string& text) {
  const Program program = *parse(text);
  std::string out;
  for (const StreamingPass& pass : split_into_passes(program)) {
    out += (out.empty() ? "" : "; ") + pass.streamed_dim + ":";
    for (const int s : pass.statements) out += " " + program.tensors[program.statements[s].result()].name;
  }
  return out;
}

TEST(StreamingPasses, ChoosesTheDimensionThatStreamsMostStatements) {
  EXPECT_EQ(describe_passes("x: f32[S, T]\na[S, T] = softmax(x over S)\ny: f32[S, T] = exp(a)"), "T: a y");
  EXPECT_EQ(describe_passes("x: f32[S, T]\na[S, T] = cos(x)\ny: f32[S, T] = exp(a)"), "S: a y")
      << "the first dimension of the result";
  EXPECT_EQ(describe_passes("x: f32[S, T]\na[T, S] = cos(x)\ny: f32[T, S] = exp(a)"), "T: a y");
  EXPECT_EQ(
      describe_passes("x: f32[S, T]\na[S, T] = softmax(x over S)\nb[S, T] = softmax(a over T)\ny: f32[S, T] = exp(b)"),
      "T: a; S: b y");
}

TEST(StreamingPasses, OperandsOfAnEarlierPassAreComputedInIt) {
  // c could stream along S with y, but b reads it and needs full columns.
  EXPECT_EQ(describe_passes(
                "x: f32[S, T]\nc[S, T] = cos(x)\nb[S, T] = softmax(c over S)\ny: f32[S, T] = softmax(b over T) + c"),
            "T: c b; S: y");
}

TEST(StreamingPasses, ASumStreamsIfItsPassDoesNotReadIt) {
  EXPECT_EQ(describe_passes("x: f32[N]\ny: f32[1] = sum(x * x over N)"), "N: y");
  EXPECT_EQ(describe_passes("x: f32[N]\ny: f32[1] = sum(x over N) + 1"), ": y") << "the statement adds 1 after the sum";
  EXPECT_EQ(describe_passes("x: f32[N]\ny: f32[1] = sum(x - mean(x over N) over N)"), ": y") << "two sums";
  EXPECT_EQ(describe_passes("x: f32[N, D]\ny: f32[1] = sum(softmax(x over D) over N, D)"), "N: y");
  EXPECT_EQ(describe_passes("x: f32[N, D]\na[D] = sum(x over N)\ny: f32[D] = exp(a)"), "D: a y");
  EXPECT_EQ(describe_passes("x: f32[N]\na[1] = sum(x over N)\ny: f32[1] = exp(a)"), "N: a; : y");
}

TEST(MetapipeMapping, StoresResultsThatAnotherPassReads) {
  const MappedProgram m = *map_example(
      "q: bf16[S, E]  c: bf16[T, D]  wk: bf16[D, E]  v: bf16[T, E]\nk[T, E] = c * wk\ns[S, T] = q * k\n"
      "p[S, T] = softmax(s over T)\no[S, E] = p * v",
      {{"S", 64}, {"T", 48}, {"D", 40}, {"E", 32}});
  ASSERT_EQ(m.passes.size(), 2U);
  EXPECT_EQ(m.passes[0].streamed_bytes, 2 * (48 * 40 + 48 * 32)) << "c enters and k leaves";
  EXPECT_EQ(m.passes[0].placement.pipe.stages.back().memory_bytes, 2 * 48 * 32 / m.passes[0].tiles);
  EXPECT_EQ(m.passes[1].streamed_bytes, 2 * (64 * 32 + 64 * 32)) << "q enters and o leaves";
  EXPECT_EQ(m.passes[1].weight_bytes, 2 * (48 * 32 + 48 * 32)) << "k and v stay";
}

// The bytes that a pass moves must equal those of inputs from outside the pass and of results read outside it, counted
// from the statements alone.
TEST(MetapipeMapping, EveryPassMovesItsInputsAndOutputs) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return random() % n; };
  int several = 0;
  for (int i = 0; i < 300; ++i) {
    // Square tensors of one size, so that bytes count tensors; some statements need full rows of others.
    std::string text = "x: f32[S, T]\nt0[S, T] = cos(x)\n";
    const std::size_t statements = 2 + below(5);
    for (std::size_t s = 1; s < statements; ++s) {
      const std::string one = "t" + std::to_string(below(s)), other = "t" + std::to_string(below(s));
      const std::string made = "t" + std::to_string(s) + "[S, T] = ";
      switch (below(4)) {
        case 0: text += made + "softmax(" + one + " over T)\n"; break;
        case 1: text += made + "softmax(" + one + " over S)\n"; break;
        case 2: text += made + one + " + " + other + "\n"; break;
        default: text += made + "exp(" + one + ") - x\n";
      }
    }
    text += "y: f32[S, T] = t" + std::to_string(statements - 1) + " * 2 + cos(t0)";
    const Program program = *parse(text);
    const Bindings dims{{"S", 32}, {"T", 32}};
    const auto m = map_to_metapipe(program, dims, *find_fabric("sn40l"));
    ASSERT_TRUE(m.ok()) << text << m.error().to_string();
    const std::vector<StreamingPass> passes = split_into_passes(program);
    ASSERT_EQ(m->passes.size(), passes.size());
    several += passes.size() > 1;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      std::set<int> here(passes[p].statements.begin(), passes[p].statements.end()), made, read, elsewhere;
      for (std::size_t s = 0; s < program.statements.size(); ++s) {
        const bool mine = here.contains(static_cast<int>(s));
        if (mine) made.insert(program.statements[s].result());
        for (const int t : statement_operands(program.statements[s])) (mine ? read : elsewhere).insert(t);
      }
      std::int64_t moved = 0;
      for (const int t : read) moved += !made.contains(t);
      for (const int t : made) moved += elsewhere.contains(t) || program.tensors[t].role == TensorRole::output;
      EXPECT_EQ(m->passes[p].streamed_bytes + m->passes[p].weight_bytes, moved * 32 * 32 * 4)
          << text << ", pass " << p << " along " << passes[p].streamed_dim;
    }
  }
  EXPECT_GT(several, 50);
}

TEST(MetapipeMapping, EveryExampleMaps) {
  for (const char* name :
       {"attention", "cos_chain", "dot", "flash_attention", "gda", "geglu", "llama_decoder", "mlp", "softmax"}) {
    const auto m = map_example(load_example(name));
    ASSERT_TRUE(m.ok()) << name << ": " << m.error().to_string();
    for (const MappedPass& pass : m->passes) {
      EXPECT_TRUE(pass.placement.fits) << name;
      EXPECT_GE(static_cast<double>(pass.run.cycles) * 1e-9, pass.off_chip_bytes() / 1.6e12 - pass.load_seconds - 1e-9)
          << name;
      EXPECT_LE(pass.run.cycles, pass.sequential_ns) << name;
    }
  }
}

TEST(MetapipeMapping, OneTokenReadsItsWeightsOnceNearFullBandwidth) {
  const MappedProgram m = *map_example(load_example("llama_decoder"), {}, {.layers = 32});
  EXPECT_EQ(m.passes[0].tiles, 1);
  EXPECT_FALSE(m.passes[0].weights_resident);
  EXPECT_EQ(m.passes[0].weight_bytes, 2 * (218112000 - 8192) + 2 * 2 * 4096);
  for (const CallModeCost& c : m.launch_modes[0].costs) EXPECT_GT(c.bandwidth_fraction, 0.9) << call_mode_name(c.mode);
}

constexpr const char* matmul = "a: bf16[M, K]  b: bf16[K, N]\nc[M, N] = a * b";
const Bindings sizes{{"M", 1024}, {"N", 512}, {"K", 4096}};

TEST(MetapipeMapping, TiledMatmulIsANestedPipe) {
  const MappedProgram m = *map_example(matmul, sizes, {.tile = 256, .inner = "N=64", .par = {"c=4"}});
  const Metapipe& pipe = m.passes[0].placement.pipe;
  ASSERT_EQ(pipe.stages.size(), 3U);  // load a; along N; store, which has nothing left to do
  EXPECT_EQ(pipe.iterations, 4);
  EXPECT_EQ(pipe.stages[0].memory_bytes, 256 * 4096 * 2);
  ASSERT_EQ(pipe.stages[1].body.size(), 1U);
  const Metapipe& inner = pipe.stages[1].body[0];
  EXPECT_EQ(inner.iterations, 8);
  ASSERT_EQ(inner.stages.size(), 3U);  // load b, c, store
  EXPECT_EQ(inner.stages[0].memory_bytes, 64 * 4096 * 2);
  EXPECT_EQ(inner.stages[1].pcus, 4);
  EXPECT_NEAR(static_cast<double>(inner.stages[1].depth), 2.0 * 256 * 64 * 4096 / (4 * 613.462e9) * 1e9, 1.5);
  EXPECT_EQ(inner.stages[2].memory_bytes, 256 * 64 * 2);
  EXPECT_EQ(pipe.stages[2].memory_bytes, 0);
  // B is read again for each of the 4 tiles of rows.
  EXPECT_EQ(m.passes[0].off_chip_bytes(), 2.0 * (1024 * 4096 + 4 * 4096 * 512 + 1024 * 512));
  EXPECT_LT(map_example(matmul, sizes, {.tile = 256, .inner = "N=64"})->passes[0].run.cycles, m.passes[0].run.cycles);
}

TEST(MetapipeMapping, FlashAttentionComputesItsSoftmaxOnline) {
  const Bindings dims{{"S", 256}, {"T", 1024}, {"H", 2}, {"E", 64}};
  const MappedProgram m = *map_example(load_example("flash_attention"), dims, {.tile = 64, .inner = "T=128"});
  const Metapipe& pipe = m.passes[0].placement.pipe;
  ASSERT_EQ(pipe.stages.size(), 3U);
  const Metapipe& inner = pipe.stages[1].body.at(0);
  EXPECT_EQ(inner.iterations, 8);
  ASSERT_EQ(inner.stages.size(), 4U);  // load k and v, s, p, o
  EXPECT_EQ(inner.stages[0].memory_bytes, 2 * 2 * 128 * 2 * 64);
  // The full scores are never stored: buffers hold 64 rows of 128, tiles of q and o, and inner tiles of k and v.
  EXPECT_LT(m.passes[0].placement.buffer_bytes,
            map_example(load_example("flash_attention"), dims, {.tile = 64})->passes[0].placement.buffer_bytes);
}

TEST(MetapipeMapping, AnInnerLoopEndsBeforeAReaderOfItsSum) {
  const MappedProgram m = *map_example(load_example("softmax"), {{"N", 64}, {"D", 512}}, {.inner = "D=64"});
  const Metapipe& pipe = m.passes[0].placement.pipe;
  ASSERT_EQ(pipe.stages.size(), 5U);  // load; m; e and s; y; store
  EXPECT_EQ(pipe.stages[1].body.at(0).stages.size(), 2U);
  EXPECT_EQ(pipe.stages[2].body.at(0).stages.size(), 3U);
}

TEST(MetapipeMapping, RejectsInvalidOptions) {
  EXPECT_EQ(map_example(mlp, {}, {.layers = 0}).error().message, "expected 1 to 1048576 layers, found 0");
  EXPECT_EQ(map_example("x: f32[N]\ny: f32[N] = cos(x)", {{"N", 1 << 24}}, {.tile = 1}).error().to_string(),
            "expected at most 65536 tiles to clock, found 16777216 of 1 rows\n  hint: --tile 256\n");
  EXPECT_FALSE(map_example("x: f32[N]\ny: f32[N] = cos(x)").ok());
  EXPECT_EQ(map_example(mlp, {}, {.par = {"hh=4"}}).error().to_string(),
            "expected a statement's result after --par, found 'hh'\n  hint: did you mean h?\n");
  EXPECT_EQ(map_example(mlp, {}, {.inner = "Q=4"}).error().message, "expected a dimension after --inner, found 'Q'");
  EXPECT_EQ(map_example(mlp, {}, {.inner = "B=4"}).error().message,
            "expected an inner dimension that does not stream, found 'B'");
  EXPECT_EQ(map_example(mlp, {}, {.buffer = {"h"}}).error().message,
            "expected a statement's result and a whole number of at least 1 after --buffer, found 'h'");
  EXPECT_EQ(map_example(mlp, {}, {.buffer = {"h=0"}}).error().to_string(),
            "expected a whole number of at least 1 for h after --buffer, found 0\n  hint: --buffer h=4\n");
  EXPECT_EQ(map_example(mlp, {}, {.par = {"h=-2"}}).error().message,
            "expected a whole number of at least 1 for h after --par, found -2");
  EXPECT_EQ(map_example(mlp, {}, {.schedule = "fork-join"}).error().message,
            "expected a schedule sequential, pipelined or streaming, found 'fork-join'");
  EXPECT_EQ(map_example(mlp, {}, {.par = {"h=2000"}}).error().message,
            "stage 'h': expected PCUs between 0 and 1040, found 2000");
}

}  // namespace
}  // namespace ridge
