#include "ridge/plan/fuse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ridge/ops/product/trace.h"
#include "ridge/plan/plan.h"
#include "ridge/pool/testing/test_cpus.h"

namespace ridge {
namespace {

struct Fused {
  Program program;
  FusionPlan fusion;
  std::string groups() const {  // "u g y | z"
    std::string out;
    for (const FusionGroup& group : fusion.groups) {
      out += out.empty() ? "" : " | ";
      for (const int s : group.statements) out += (s == group.statements[0] ? "" : " ") + result(s);
    }
    return out;
  }
  std::string internal_names() const {
    std::string out;
    for (const FusionGroup& group : fusion.groups)
      for (const int t : group.internal_tensors) out += (out.empty() ? "" : " ") + program.tensors[t].name;
    return out;
  }
  std::vector<std::string> boundary_texts() const {
    std::vector<std::string> out;
    for (const FusionBoundary& boundary : fusion.boundaries)
      out.push_back(fmt::format("{} | {}: {}", result(boundary.producer), result(boundary.consumer), boundary.reason));
    return out;
  }
  std::string result(int s) const { return program.tensors[program.statements[s].result()].name; }
};

Fused fused(const std::string& text, FuseOptions options = {}, const Bindings& given = {}) {
  Program program = parse(text).value();
  const Bindings dims = program.bind_sizes(given).value();
  std::vector<Shape> shapes;
  for (const Tensor& tensor : program.tensors) shapes.push_back(make_shape(tensor, dims).value());
  FusionPlan fusion = fuse_statements(program, shapes, options);
  return {std::move(program), std::move(fusion)};
}

constexpr const char* geglu =
    "dims N = 6, D = 8, F = 4*D\n"
    "x: bf16[N, D]   up: bf16[F, D]   gate: bf16[F, D]   bu: bf16[F]   bg: bf16[F]\n"
    "u[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = (u + bu) * gelu(g + bg)";

TEST(Fuse, FusesTwoProductsWithTheirGate) {
  const Fused x = fused(geglu);
  EXPECT_EQ(x.groups(), "u g y");
  EXPECT_EQ(x.internal_names(), "u g");
  EXPECT_EQ(x.fusion.groups[0].kind, FusionGroup::GroupKind::product);
  EXPECT_TRUE(x.fusion.boundaries.empty());
}

// docs/geglu.md: the peak of live elements is 13*N*d plus the parameters unfused, and 5*N*d plus the parameters fused;
// the saving is 8*N*d, and its ratio to the parameters 8*d*d + 8*d is N/(d + 1).
TEST(Fuse, CountsLiveBytesOfAGegluLayer) {
  for (const auto& [n, d] : {std::pair<std::int64_t, std::int64_t>{6, 8}, {32768, 8192}, {1, 4096}}) {
    const Fused x = fused(geglu, {}, {{"N", n}, {"D", d}});
    const std::int64_t parameters = 8 * d * d + 8 * d;
    EXPECT_EQ(x.fusion.live_bytes_before, 2 * (13 * n * d + parameters));
    EXPECT_EQ(x.fusion.live_bytes_after, 2 * (5 * n * d + parameters));
    EXPECT_EQ(x.fusion.groups[0].bytes_after, 2 * (5 * n * d + parameters));
    EXPECT_EQ(x.fusion.groups[0].bytes_before, 2 * (22 * n * d + parameters));
    EXPECT_EQ((x.fusion.live_bytes_before - x.fusion.live_bytes_after) / 2 * (d + 1), n * parameters);
  }
}

TEST(Fuse, OneKernelPerStatementWithoutFusion) {
  const Fused x = fused(geglu, {.fuse = false});
  EXPECT_EQ(x.groups(), "u | g | y");
  EXPECT_EQ(x.internal_names(), "");
  EXPECT_EQ(x.fusion.live_bytes_before, x.fusion.live_bytes_after);
  EXPECT_TRUE(x.fusion.boundaries.empty());
}

TEST(Fuse, StoresRequestedTensors) {
  const Fused x = fused(geglu, {.stored_tensors = {5}});
  EXPECT_EQ(x.program.tensors[5].name, "u");
  EXPECT_EQ(x.groups(), "u g y");
  EXPECT_EQ(x.internal_names(), "g");
}

TEST(Fuse, ReportsWhyStatementsAreNotFused) {
  const Bindings dims{{"B", 8}, {"D", 4}, {"F", 16}};
  EXPECT_EQ(
      fused("x: f32[B, D]  g: f32[D, F]  d: f32[F, D]\nh[B, F] = x * g\nk[B, F] = silu(h)\ny: f32[B, D] = k * d", {},
            dims)
          .boundary_texts(),
      std::vector<std::string>{"k | y: the product reads k for every tile of y: it would be recomputed for each tile"});
  EXPECT_EQ(
      fused("x: f32[B, D]  g: f32[D, F]\nh[B, F] = x * g\ny: f32[B, F] = softmax(h over F)", {}, dims).boundary_texts(),
      std::vector<std::string>{"h | y: y needs full rows, and a product computes one tile at a time"});
  EXPECT_EQ(fused("x: f32[D]  z: f32[B, D]\na[D] = exp(x)\ny: f32[B, D] = a * cos(z)", {}, {{"B", 8}, {"D", 4}})
                .boundary_texts(),
            std::vector<std::string>{
                "a | y: a[D] and y[B, D] have different dimensions: one would be recomputed many times"});
  EXPECT_EQ(fused("x: f32[B, D]  z: f32[B, D]  g: f32[D, F]\nu[B, F] = x * g\nv[B, F] = z * g\ny: f32[B, F] = u * v",
                  {}, dims)
                .groups(),
            "u v y")
      << "the weights are shared";
  EXPECT_EQ(fused("x: f32[B, D]  z: f32[B, D]  g: f32[D, F]  h: f32[D, F]\nu[B, F] = x * g\nv[B, F] = z * h\n"
                  "y: f32[B, F] = u * v",
                  {}, dims)
                .boundary_texts(),
            std::vector<std::string>{"u | y: u and v are products without a shared operand"});
}

// The rows of a product may be several dimensions; a tensor with only one of them has no single stride along the rows.
TEST(Fuse, DoesNotFuseOperandsWithOneOfTwoRowDimensions) {
  const auto boundary_texts = [](const std::string& axes) {
    return fused("x: f32[A, B, D]  w: f32[D, F]  b: f32[" + axes + "]\nu[A, B, F] = x * w\ny: f32[A, B, F] = u + b", {},
                 {{"A", 3}, {"B", 5}, {"D", 4}, {"F", 16}})
        .boundary_texts();
  };
  for (const std::string axes : {"A", "B", "A, F", "B, F", "F, A"})
    EXPECT_EQ(
        boundary_texts(axes),
        std::vector<std::string>{"u | y: b[" + axes + "] has no single stride along the product's rows and columns"});
  // Multi-query attention: heads and queries are the rows, and the mask counts queries alone.
  const auto masked = [](const std::string& mask) {
    return fused("q: f32[H, S, E]  k: f32[T, E]\ns[H, S, T] = q * k\nm: f32[H, S, T] = where(" + mask + ", s, -inf)",
                 {}, {{"H", 3}, {"S", 5}, {"T", 5}, {"E", 4}})
        .boundary_texts();
  };
  EXPECT_EQ(masked("index(T) <= index(S)"),
            std::vector<std::string>{"s | m: index(S) has no single stride along the product's rows and columns"});
  EXPECT_TRUE(masked("index(T) <= 3").empty());
  EXPECT_EQ(boundary_texts("B, A").size(), 1u) << "the rows of a transposed tensor have no stride either";
  for (const std::string axes : {"F", "A, B", "A, B, F", "F, A, B", "1"})
    EXPECT_TRUE(boundary_texts(axes).empty()) << axes;
}

// Fusion of a GEGLU layer (docs/geglu.md) and similar layers on a device, which has two kinds of fused kernels.
TEST(Fuse, FusesOnlyEpiloguesThatTheDeviceSupports) {
  const FuseOptions cuda{.target = Target::cuda};
  const std::string dims = "dims N = 6, D = 8, F = 32\nx: bf16[N, D]   up: bf16[F, D]   gate: bf16[F, D]  r: bf16[F]\n";
  EXPECT_EQ(fused(geglu, cuda).groups(), "u g y");
  EXPECT_EQ(fused(geglu, cuda).internal_names(), "u g");
  EXPECT_EQ(
      fused(dims + "u[N, F] = x * up\ng[N, F] = x * gate\na[N, F] = silu(g)\ny: bf16[N, F] = a * u", cuda).groups(),
      "u g a y");
  EXPECT_EQ(
      fused(dims + "b[F] = r * r\nu[N, F] = x * up\ng[N, F] = x * gate\nv[N, F] = u + b\ny: bf16[N, F] = v * g", cuda)
          .groups(),
      "b | u g v y")
      << "b has other dimensions, so it is an operand";
  EXPECT_EQ(fused(dims + "u[N, F] = x * up\ng[N, F] = x * gate\na[N, F] = silu(g)\nc: bf16[N, F] = a + 1\n"
                         "y: bf16[N, F] = a * u",
                  cuda)
                .groups(),
            "g a | c | u y")
      << "two results: each product has its own epilogue";
  EXPECT_EQ(fused(dims + "u[N, F] = x * up\ny: bf16[N, F] = gelu(u * 0.5 + 1)", cuda).boundary_texts(),
            std::vector<std::string>{"u | y: the device's epilogue is scale, bias, activation, gate and residual; this "
                                     "chain has a sum of unsupported expressions"});
  EXPECT_EQ(fused(dims + "u[N, F] = x * up\ny: bf16[N, F] = relu(u)\nz: bf16[N, F] = u + r * y", cuda).groups(),
            "u | y z")
      << "u is read twice";
}

// If the pair cannot be one kernel, the gate may still be the epilogue of one product that reads the other's result,
// where that is faster than a separate kernel.
TEST(Fuse, FusesTheGateWithOneProductIfNoKernelTakesTwo) {
  const auto layer = [](const char* dtype) {
    return fmt::format(
        "dims B = 8, D = 4, F = 16\nx: {0}[B, D]  gate: {0}[D, F]  up: {0}[D, F]\n"
        "g[B, F] = x * gate\nu[B, F] = x * up\nh: {0}[B, F] = silu(g) * u",
        dtype);
  };
  const FuseOptions cuda{.target = Target::cuda};
  const Fused exact = fused(layer("f32"), cuda), brief = fused(layer("bf16"), cuda);
  EXPECT_EQ(exact.groups(), "u | g h");
  EXPECT_EQ(exact.internal_names(), "g");
  EXPECT_EQ(exact.boundary_texts(),
            std::vector<std::string>{"u | h: the device has no kernel for this: its gated layer supports "
                                     "only bf16 and f16, and this one multiplies f32"});
  EXPECT_EQ(brief.groups(), "g u h");
  EXPECT_EQ(fused("dims B = 8, D = 4, F = 16\nx: bf16[B, D]  gate: bf16[F, D]  up: bf16[D, F]\n"
                  "g[B, F] = x * gate\nu[B, F] = x * up\nh: bf16[B, F] = silu(g) * u",
                  cuda)
                .boundary_texts(),
            std::vector<std::string>{
                "u | h: the device has no kernel for this: its gated layer needs two weights of the same layout"});
}

TEST(Fuse, DoesNotFuseIfSeparateKernelsAreFaster) {
  const Bindings dims{{"N", 4}, {"D", 4}, {"F", 4}};
  const auto first_boundary = [&](const std::string& text, const FuseOptions& options) {
    return fused(text, options, dims).boundary_texts().at(0);
  };
  const std::string product = "x: bf16[N, D]  w: bf16[F, D]  b: f32[F]\nu[N, F] = x * w\n";
  EXPECT_EQ(first_boundary(product + "y: bf16[N, F] = gelu(u + b)", {.target = Target::cuda, .fuse_epilogues = false}),
            "u | y: the library's products have no fused epilogue");
  const auto with_epilogue = [&](const char* operand, std::int64_t n, std::int64_t d, std::int64_t f) {
    const Fused x = fused(
        std::string("x: bf16[N, D]  w: bf16[F, D]  ") + operand + "\nu[N, F] = x * w\ny: bf16[N, F] = gelu(u + b)",
        {.target = Target::cuda}, {{"N", n}, {"D", d}, {"F", f}});
    return x.boundary_texts().empty() ? x.groups() : x.boundary_texts().at(0);
  };
  EXPECT_EQ(with_epilogue("b: bf16[F]", 4096, 1024, 4096), "u y");
  EXPECT_EQ(with_epilogue("b: bf16[N, F]", 2048, 4096, 2048), "u y");
  for (const char* operand : {"b: f32[F]", "b: f32[N]"})
    EXPECT_EQ(with_epilogue(operand, 512, 512, 512), "u y") << operand;
  EXPECT_EQ(first_boundary("x: bf16[N, D]  w: bf16[F, D]\nu[N, F] = x * w\ny: bf16[N, F] = gelu(u)",
                           {.target = Target::cuda, .products_without_epilogue = {{0, "the times decide"}}}),
            "u | y: the times decide");
  const std::string otherwise =
      "u | y: a separate kernel is faster on the device for epilogue operands that are neither f32 nor of a 16-bit "
      "result's dtype, or that are not contiguous along its rows";
  for (const char* operand : {"b: f16[F]", "b: bf16[N]", "b: bf16[F, N]"})
    EXPECT_EQ(with_epilogue(operand, 512, 512, 512), otherwise) << operand;
  EXPECT_EQ(with_epilogue("b: f32[F]", 512, 512, 511), "u y") << "unaligned rows slow a separate kernel as well";
  const std::string pair = "x: bf16[N, D]  w: bf16[F, D]  v: bf16[F, D]  b: f32[F]\nu[N, F] = x * w\ng[N, F] = x * v\n";
  for (const char* gate : {"y: bf16[N, F] = u * gelu(g + b)", "y: f32[N, F] = u * gelu(g)"})
    EXPECT_EQ(first_boundary(pair + gate, {.target = Target::cuda}),
              "u | y: a separate kernel is faster on the device for a gate whose result or biases have another "
              "dtype than x");
}

// On a device a kernel holds full rows.
TEST(Fuse, DeviceKernelsNeedFullRows) {
  const auto on_device = [](const std::string& text, const Bindings& dims) {
    return fused(text, {.target = Target::cuda}, dims);
  };
  const std::string softmax =
      "x: f32[N, D]\nm[N] = max(x over D)\ne[N, D] = exp(x - m)\ns[N] = sum(e over D)\ny: f32[N, D] = e / s";
  const Fused fused_softmax = on_device(softmax, {{"N", 100}, {"D", 1000}});
  EXPECT_EQ(fused_softmax.groups(), "m e s y");
  EXPECT_EQ(fused_softmax.internal_names(), "m e s");
  EXPECT_EQ(fused_softmax.fusion.groups[0].bytes_after, 2 * 100 * 1000 * 4);
  EXPECT_EQ(fused(softmax, {.target = Target::cuda, .generate_kernels = false}, {{"N", 100}, {"D", 1000}}).groups(),
            "m | e | s | y");
  EXPECT_EQ(on_device(softmax, {{"N", 1}, {"D", 300000}}).boundary_texts().at(0),
            "m | e: m reduces along a dimension: 1 row of 300000 would leave most multiprocessors idle");
  EXPECT_EQ(on_device(softmax, {{"N", 100}, {"D", 300000}}).boundary_texts().at(0),
            "m | e: m reduces along a dimension: a row has 300000 columns; expected at most 131072");
  EXPECT_EQ(
      on_device("x: f32[N, D]\nm[D] = max(x over N)\ny: f32[N, D] = x - m", {{"N", 8}, {"D", 9}}).boundary_texts(),
      std::vector<std::string>{"m | y: m reduces along a dimension: [N, D] is not contiguous along N"});
  EXPECT_EQ(
      on_device("x: f32[N, D]  w: f32[D]\nq[N, D] = x * w\ny: f32[N, D] = q / sum(w * w over D)", {{"N", 8}, {"D", 9}})
          .boundary_texts(),
      std::vector<std::string>{
          "q | y: y reduces along a dimension: the reduction along D would be recomputed for each N"});
  EXPECT_EQ(on_device("x: f32[N, D]  z: f32[N, F]\ns[N] = sum(x over D)\ny: f32[N, F] = z * s",
                      {{"N", 8}, {"D", 9}, {"F", 4}})
                .boundary_texts(),
            std::vector<std::string>{
                "s | y: s reduces along a dimension: the reduction along D would be recomputed for each F"});
  EXPECT_EQ(
      on_device("x: f32[N, D, E]\na[N, D] = sum(x over E)\ny: f32[N] = sum(a over D)", {{"N", 8}, {"D", 9}, {"E", 4}})
          .boundary_texts(),
      std::vector<std::string>{"a | y: a reduces along a dimension: it reduces along E and along D"});
}

TEST(Fuse, FusesPointwiseStatementsAndSiblings) {
  const Bindings dims{{"N", 100}};
  const Fused x =
      fused("x: f32[N]  z: f32[N]\na[N] = exp(x)\nb[N] = a * z\nc: f32[N] = b + a\nd: f32[N] = cos(b)", {}, dims);
  EXPECT_EQ(x.groups(), "a b c d");
  EXPECT_EQ(x.internal_names(), "a b");
  EXPECT_EQ(x.fusion.groups[0].bytes_after, 4 * 100 * 4);
  EXPECT_EQ(fused("x: f32[N]\na: f32[N] = exp(x)\nb: f32[N] = cos(x)", {}, dims).groups(), "a b");
  EXPECT_EQ(fused("x: f32[N]\na[N] = exp(x)\nb: f32[N] = a + 1", {.target = Target::cuda}, dims).groups(), "a b");
}

// s needs z and z needs a, so a and s cannot be one kernel: z would have to run between them.
TEST(Fuse, DoesNotCreateACycleOfKernels) {
  const Fused x = fused(
      "x: f32[N, N']  w: f32[N', M]\na[N, N'] = exp(x)\nz[N, M] = a * w\nm[N] = sum(z over M)\n"
      "y: f32[N, N'] = a * m",
      {}, {{"N", 4}, {"N'", 4}, {"M", 3}});
  EXPECT_EQ(x.groups(), "a | z | m y");
  EXPECT_EQ(
      x.boundary_texts(),
      (std::vector<std::string>{"a | z: the product reads a for every tile of z: it would be recomputed for each tile",
                                "z | m: m needs full rows, and a product computes one tile at a time",
                                "a | y: another kernel would have to run between the two"}));
}

constexpr const char* softmax =
    "x: f32[N, D]\nm[N] = max(x over D)\ne[N, D] = exp(x - m)\ns[N] = sum(e over D)\ny: f32[N, D] = e / s";

TEST(Fuse, FusesRowFunctionsOnTheCpu) {
  const Fused x = fused(softmax, {}, {{"N", 100}, {"D", 1000}});
  EXPECT_EQ(x.groups(), "m e s y");
  EXPECT_EQ(x.internal_names(), "m e s");
  EXPECT_EQ(x.fusion.groups[0].kind, FusionGroup::GroupKind::rows);
  EXPECT_EQ(x.fusion.groups[0].bytes_after, 2 * 4 * 100 * 1000);
  EXPECT_EQ(x.fusion.groups[0].bytes_before, 4 * (100 * 1000 * 6 + 100 * 4));
  EXPECT_EQ(fused(softmax, {}, {{"N", 100}, {"D", 100000}}).boundary_texts().at(0),
            "m | e: a row of m and the adjacent statements takes 1.200 MB, which exceeds a core's L2");
  EXPECT_EQ(
      fused("x: f32[N, D]\nm[N] = mean(x over D)\ny: f32[D] = sum(x - m over N)", {}, {{"N", 9}, {"D", 8}})
          .boundary_texts(),
      std::vector<std::string>{"m | y: m reduces along a dimension, and the statements share no other dimension"});
}

// Statements that are no known row function; recognize_rows_test.cc tests those that are.
TEST(Fuse, LowersRowsToRowBlocksWithScratch) {
  const Program program = parse(std::string(softmax) + " + x").value();
  const Plan p = make_plan(program, {{"N", 1000}, {"D", 1000}}).value();
  ASSERT_EQ(p.steps.size(), 1u);
  const auto& row_blocks = std::get<ops::RowBlockProgram>(p.steps[0].kernel);
  EXPECT_EQ(row_blocks.extents, std::vector<std::int64_t>{1000});
  EXPECT_EQ(row_blocks.full_steps.size(), 4u);
  EXPECT_EQ(p.steps[0].buffers, (std::vector<int>{0, -1, -1, -1, 4}));
  EXPECT_EQ(p.memory_bytes, 2 * 4 * 1000 * 1000);
  const Plan unfused = make_plan(program, {{"N", 1000}, {"D", 1000}}, {.fuse = false}).value();
  EXPECT_EQ(unfused.steps.size(), 4u);
  EXPECT_EQ(unfused.memory_bytes, 4 * (3 * 1000 * 1000 + 2 * 1000));
}

TEST(Fuse, OneStepMovesTheBytesOfItsGroup) {
  for (const Bindings& dims : {Bindings{{"N", 200}, {"D", 96}}, Bindings{{"N", 130}, {"D", 131}}}) {
    const Program program = parse(geglu).value();
    const Plan p = make_plan(program, program.bind_sizes(dims).value()).value();
    ASSERT_EQ(p.steps.size(), 1u);
    const auto& step = std::get<ops::FusedMatmul>(p.steps[0].kernel);
    EXPECT_EQ(p.steps[0].buffers, (std::vector<int>{0, 1, 2, 3, 4, 7}));
    for (const pool::Cpu& cpu : pool::all_test_cpus()) {
      // Tiles read short rows of x in place, and then each of two threads reads all of x for its own columns.
      const bool in_place = cpu.isa == pool::Isa::amx && step.product.size.k % 32 == 0;
      const std::int64_t again = in_place ? p.buffers[0].size_bytes() : 0;
      EXPECT_EQ(ops::count_cpu_traffic(step, 1, cpu).global_bytes(), p.fusion.groups[0].bytes_after)
          << pool::describe_cpu(cpu);
      EXPECT_EQ(ops::count_cpu_traffic(step, 2, cpu).global_bytes(), p.fusion.groups[0].bytes_after + again)
          << pool::describe_cpu(cpu);
    }
    EXPECT_EQ(p.buffers[5].size_bytes() + p.buffers[6].size_bytes(), 0);
    EXPECT_EQ(p.memory_bytes, p.fusion.live_bytes_after);
  }
}

}  // namespace
}  // namespace ridge
