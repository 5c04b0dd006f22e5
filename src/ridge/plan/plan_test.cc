#include "ridge/plan/plan.h"

#include <gtest/gtest.h>

#include "ridge/plan/shape.h"

namespace ridge {
namespace {

using ops::ChainOp;
using ops::ChainProgram;
using ops::MatmulProblem;
using ops::MatrixLayout;

Plan planned(const std::string& text, const Bindings& given = {}) {
  const auto program = parse(text);
  return make_plan(*program, *program->bind_sizes(given)).value();
}

const MatmulProblem& matmul(const Plan& plan, std::size_t step) {
  return std::get<MatmulProblem>(plan.steps.at(step).kernel);
}
const ChainProgram& chain(const Plan& plan, std::size_t step) {
  return std::get<ChainProgram>(plan.steps.at(step).kernel);
}

TEST(Plan, UsesTheStridesOfAMatmul) {
  const Plan p = planned("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 2}, {"D", 3}, {"F", 5}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(matmul(p, 0),
            (MatmulProblem{1, 2, 5, 3, {DType::bf16, 3, 1, 0}, {DType::bf16, 5, 1, 0}, {DType::bf16, 5, 1, 0}}));
  EXPECT_EQ(p.memory_bytes, 2 * (6 + 15 + 10));
}

TEST(Plan, DoesNotCopyTransposedWeights) {
  const Plan p = planned("f32[B, D] * f32[F, D] -> f32[B, F]", {{"B", 2}, {"D", 3}, {"F", 5}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(matmul(p, 0).b, (MatrixLayout{DType::f32, 1, 3, 0}));
}

TEST(Plan, SwapsTheOperandsOfATransposedResult) {
  const Plan p = planned("f32[B, D] * f32[D, F] -> f32[F, B]", {{"B", 2}, {"D", 3}, {"F", 5}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(matmul(p, 0).size.m, 5);
  EXPECT_EQ(matmul(p, 0).d, (MatrixLayout{DType::f32, 2, 1, 0}));
  EXPECT_EQ(matmul(p, 0).a, (MatrixLayout{DType::f32, 1, 5, 0}));
  EXPECT_EQ(p.steps[0].buffers, (std::vector<int>{1, 0, 2}));
}

TEST(Plan, GroupsBatchAndMergesDimensions) {
  const Plan p =
      planned("f32[H, B, T, D] * f32[H, D, E] -> f32[H, B, T, E]", {{"H", 7}, {"B", 2}, {"T", 3}, {"D", 4}, {"E", 5}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(matmul(p, 0),
            (MatmulProblem{7, 6, 5, 4, {DType::f32, 4, 1, 24}, {DType::f32, 5, 1, 20}, {DType::f32, 5, 1, 30}}));
}

TEST(Plan, ADotProductHasOneRowAndColumn) {
  const Plan p = planned("x * y: f32[N], f32[N] -> f32[1]", {{"N", 9}});
  EXPECT_EQ(matmul(p, 0).size.m, 1);
  EXPECT_EQ(matmul(p, 0).size.n, 1);
  EXPECT_EQ(matmul(p, 0).size.k, 9);
}

TEST(Plan, CopiesAnOperandWithoutASingleStride) {
  const Plan p = planned("f32[B, K, L] * f32[K, F, L] -> f32[B, F]", {{"B", 50}, {"K", 3}, {"L", 4}, {"F", 5}});
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(p.steps[0].copy_description, "Y[K, F, L] to [K, L, F] order");
  EXPECT_EQ(chain(p, 0).extents, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(chain(p, 0).tensors[0].strides, (std::vector<std::int64_t>{20, 1, 4}));
  EXPECT_EQ(chain(p, 0).tensors[1].strides, (std::vector<std::int64_t>{20, 5, 1}));
  EXPECT_EQ(matmul(p, 1).size.k, 12);
  EXPECT_EQ(p.buffers.size(), 4u);
}

TEST(Plan, CopiesAResultWithInterleavedDimensions) {
  const Plan p = planned("f32[M, B, K] * f32[B, K, N] -> f32[M, B, N]", {{"M", 2}, {"B", 3}, {"K", 4}, {"N", 5}});
  ASSERT_EQ(p.steps.size(), 1u) << "a batch stride suffices: no copy";
  EXPECT_EQ(matmul(p, 0).d, (MatrixLayout{DType::f32, 15, 1, 5}));
  const Plan q = planned("f32[M, O, K] * f32[K, N] -> f32[M, N, O]", {{"M", 2}, {"O", 3}, {"K", 4}, {"N", 5}});
  ASSERT_EQ(q.steps.size(), 2u);
  EXPECT_EQ(q.steps[1].copy_description, "Z[M, O, N] to [M, N, O] order");
}

// The fused kernel writes the result in its own order; a result without an epilogue is copied.
TEST(Plan, CopiesAConvolutionWithChannelsLastToChannelsFirst) {
  const std::string conv =
      "x: bf16[2, 5, 5, 3]  w: f32[4, 3, 3, 3]  b: f32[4]\n"
      "y: f32[2, 3, 3, 4] = conv(x, w)\n";
  const Plan p = planned(conv);
  ASSERT_EQ(p.steps.size(), 4u);
  EXPECT_EQ(p.steps[0].copy_description, "x to f32, channels first");
  EXPECT_EQ(chain(p, 0).extents, (std::vector<std::int64_t>{2, 3, 5, 5}));
  EXPECT_EQ(chain(p, 0).tensors[0].strides, (std::vector<std::int64_t>{75, 1, 15, 3}));
  EXPECT_EQ(chain(p, 0).tensors[1].strides, (std::vector<std::int64_t>{75, 25, 5, 1}));
  EXPECT_EQ(p.steps[1].copy_description, "w channels first");
  EXPECT_EQ(matmul(p, 2).size, (ProductSize{4, 9, 27}));
  EXPECT_EQ(p.steps[3].copy_description, "y channels last");
  EXPECT_EQ(chain(p, 3).tensors[0].strides, (std::vector<std::int64_t>{36, 9, 3, 1}));
  EXPECT_EQ(chain(p, 3).tensors[1].strides, (std::vector<std::int64_t>{36, 1, 12, 4}));
  std::string fused = conv;
  fused.replace(fused.find("y: f32["), 7, "y[");
  const Plan q = planned(fused + "z: bf16[2, 3, 3, 4] = relu(y + b)");
  ASSERT_EQ(q.steps.size(), 3u);
  const auto& epilogue = std::get<ops::FusedMatmul>(q.steps[2].kernel).chain;
  EXPECT_EQ(epilogue.tensors.back().strides, (std::vector<std::int64_t>{36, 1, 4}));
}

TEST(Plan, ConvertsMixedDtypesToF32) {
  const Plan p = planned("bf16[B, D] * f32[D, F] -> bf16[B, F]", {{"B", 2}, {"D", 3}, {"F", 5}});
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(p.steps[0].copy_description, "X[B, D] to [B, D] order, bf16 to f32");
  EXPECT_EQ(matmul(p, 1).a.dtype, DType::f32);
  EXPECT_EQ(matmul(p, 1).d.dtype, DType::bf16);
}

TEST(Plan, DoesNotConvertEqualDtypesOrInt8) {
  const Bindings given{{"B", 2}, {"D", 3}, {"F", 5}};
  for (const char* text : {"f16[B, D] * f16[D, F] -> f32[B, F]", "int8[B, D] * int8[D, F] -> int32[B, F]",
                           "int8[B, D] * int8[D, F] -> int8[B, F]", "bf16[B, D] * int8[D, F] -> bf16[B, F]",
                           "int8[B, D] * f32[D, F] -> f16[B, F]"})
    EXPECT_EQ(planned(text, given).steps.size(), 1u) << text;
}

TEST(Plan, MultipliesNarrowFloatsAsTheTargetCan) {
  struct Expected {
    const char* program;
    Target target;
    std::size_t copies;
    DType multiplied;
  };
  const std::string reordered = "x: e4m3[A, M, C]  w: e4m3[N, A, C]\ny: bf16[M, N] = x * w";
  for (const auto& [program, target, copies, multiplied] :
       {Expected{"e4m3[M, K] * e4m3[N, K] -> bf16[M, N]", Target::cpu, 2, DType::bf16},
        {"e4m3[M, K] * e4m3[N, K] -> bf16[M, N]", Target::cuda, 0, DType::e4m3},
        {reordered.c_str(), Target::cuda, 2, DType::bf16},
        {"e4m3[M, K] * f16[N, K] -> f32[M, N]", Target::cuda, 1, DType::f16},
        {"int8[M, K] * int8[N, K] -> int32[M, N]", Target::cuda, 0, DType::int8},
        {"int8[M, K] * int8[K, N] -> bf16[M, N]", Target::cuda, 0, DType::int8},
        {"x: int8[A, M, C]  w: int8[N, A, C]\ny: int32[M, N] = x * w", Target::cuda, 1, DType::int8},
        {"e4m3[M, K] * f32[N, K] -> f32[M, N]", Target::cpu, 1, DType::f32},
        {"tf32[M, K] * tf32[K, N] -> f32[M, N]", Target::cpu, 0, DType::f32},
        {"tf32[M, K] * tf32[K, N] -> f32[M, N]", Target::cuda, 0, DType::tf32},
        {"tf32[M, K] * f32[K, N] -> f32[M, N]", Target::cuda, 0, DType::f32},
        {"x: tf32[A, M, C]  w: tf32[N, A, C]\ny: f32[M, N] = x * w", Target::cuda, 1, DType::tf32}}) {
    const auto parsed = parse(program);
    const auto plan = make_plan(*parsed, {{"M", 20}, {"N", 30}, {"K", 40}, {"A", 4}, {"C", 10}}, {.target = target});
    ASSERT_TRUE(plan.ok()) << program << ": " << plan.error().message;
    ASSERT_EQ(plan->steps.size(), copies + 1) << program;
    EXPECT_EQ(matmul(*plan, copies).a.dtype, multiplied) << program;
    EXPECT_EQ(matmul(*plan, copies).b.dtype, multiplied) << program;
  }
}

TEST(Plan, AProductWithoutASumIsAChain) {
  const Plan p = planned("f32[M] * f32[N] -> f32[M, N]", {{"M", 2}, {"N", 3}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(chain(p, 0).extents, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(chain(p, 0).tensors[0].strides, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(chain(p, 0).tensors[1].strides, (std::vector<std::int64_t>{0, 1}));
}

TEST(Plan, AChainBroadcastsAndReusesRegisters) {
  const Plan p =
      planned("u: f32[N, F]  g: f32[N, F]  bu: f32[F]\ny: f32[N, F] = (u + bu) * gelu(g + bu)", {{"N", 2}, {"F", 3}});
  EXPECT_EQ(chain(p, 0).extents, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(chain(p, 0).tensors.size(), 4u);
  EXPECT_LE(chain(p, 0).registers, 3);
  const Plan flat = planned("u: f32[N, F]\ny: f32[N, F] = repeat(5, cos, u)", {{"N", 2}, {"F", 3}});
  EXPECT_EQ(chain(flat, 0).extents, (std::vector<std::int64_t>{2, 3})) << "the kernel merges axes, not the plan";
  EXPECT_EQ(chain(flat, 0).registers, 1);
  EXPECT_EQ(chain(flat, 0).steps[1].repeat, 5);
}

TEST(Plan, RejectsUnsupportedPrograms) {
  const auto error = [](const std::string& text, const Bindings& given) {
    const auto program = parse(text);
    return make_plan(*program, *program->bind_sizes(given)).error().to_string();
  };
  EXPECT_EQ(error("f64[N] * f64[N] -> f64[1]", {{"N", 2}}),
            "cannot run 'X' as f64: expected f32, tf32, bf16, f16, e4m3 or int8, found f64\n"
            "  hint: `ridge explain` takes every dtype; to run, declare another one or pass --dtype\n");
  EXPECT_EQ(error("int8[N] * int8[N] -> int16[1]", {{"N", 2}}),
            "cannot run 'Z' as int16: expected f32, bf16, f16, int8 or int32, found int16\n"
            "  hint: `ridge explain` takes every dtype; to run, declare another one or pass --dtype\n");
  EXPECT_EQ(error("x: int8[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w", {{"N", 2}, {"D", 32}, {"F", 3}}),
            "cannot run 'x' as int8: expected f32, bf16 or f16, found int8\n"
            "  hint: `ridge explain` takes every dtype; to run, declare another one or pass --dtype\n");
  EXPECT_EQ(error("w: mxfp4[F, D]\ny: bf16[F, D] = w + 1", {{"D", 32}, {"F", 3}}),
            "cannot run 'w' as mxfp4: expected f32, bf16 or f16, found mxfp4\n"
            "  hint: `ridge explain` takes every dtype; to run, declare another one or pass --dtype\n");
  const auto cuda_error = [](const std::string& text, const Bindings& given) {
    const auto program = parse(text);
    return make_plan(*program, *program->bind_sizes(given), {.target = Target::cuda}).error().message;
  };
  EXPECT_EQ(cuda_error("int8[N] * tf32[N] -> f32[1]", {{"N", 2}}),
            "cannot run 'X' as int8: expected f32, bf16, f16 or int8 for the other operand, found tf32");
  EXPECT_EQ(cuda_error("int8[N] * int8[N] -> int8[1]", {{"N", 2}}),
            "cannot run 'Z' as int8: expected f32, bf16, f16 or int32, found int8");
  EXPECT_EQ(cuda_error("int8[M] * int8[N] -> int32[M, N]", {{"M", 2}, {"N", 2}}),
            "cannot run 'X' as int8: expected f32, tf32, bf16, f16 or e4m3, found int8")
      << "without a sum";
  EXPECT_EQ(error("f32[N] * f32[N] -> f32[1]", {}),
            "dimension 'N' has no value; expected one to run the program\n  hint: -d N=64\n");
  EXPECT_NE(error("f32[N, M] * f32[M] -> f32[N]", {{"N", 4000000000}, {"M", 4000000000}}), "");
}

std::vector<PlanStep> scaled_steps(const std::string& text, Target target = Target::cpu) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << text;
  const auto plan = make_plan(*program, {{"N", 2}, {"D", 128}, {"F", 3}, {"H", 2}}, {.target = target});
  EXPECT_TRUE(plan.ok()) << text;
  return plan.ok() ? plan->steps : std::vector<PlanStep>{};
}

TEST(Plan, ConvertsBlockScaledOperandsOnDevicesBeforeTheProduct) {
  const std::vector<PlanStep> steps =
      scaled_steps("x: bf16[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w", Target::cuda);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(std::get<ops::DequantizeLoops>(steps[0].kernel), (ops::DequantizeLoops{DType::mxfp4, DType::bf16, 384}));
  EXPECT_EQ(std::get<ops::MatmulProblem>(steps[1].kernel).b.dtype, DType::bf16);
}

TEST(Plan, MultipliesTwoOperandsOfScaledE4m3AsTheyAreStoredOnDevices) {
  const auto steps_of = [](std::int64_t depth, Target target) {
    const auto program = parse(
        "x: bf16[N, D]  w: e4m3_128[F, D]\nq[N, D] = quantize(x, e4m3, block = 128)\n"
        "y: bf16[N, F] = q * w");
    EXPECT_TRUE(program.ok());
    const auto plan = make_plan(*program, {{"N", 300}, {"D", depth}, {"F", 96}}, {.target = target});
    EXPECT_TRUE(plan.ok());
    return plan.ok() ? plan->steps : std::vector<PlanStep>{};
  };
  const std::vector<PlanStep> steps = steps_of(1024, Target::cuda);
  ASSERT_EQ(steps.size(), 2u);
  const auto& product = std::get<ops::MatmulProblem>(steps[1].kernel);
  EXPECT_EQ(product.a.dtype, DType::e4m3_128);
  EXPECT_EQ(product.b.dtype, DType::e4m3_128);
  EXPECT_EQ(steps_of(640, Target::cuda).size(), 2u) << "lines of five blocks";
  EXPECT_EQ(steps_of(1024, Target::cpu).size(), 3u) << "a CPU converts one operand in memory";
}

TEST(Plan, RoutesRowsOfEightBitsAsTheyAreStoredOnDevices) {
  const auto plan_of = [](const std::string& x, const std::string& w, std::int64_t depth, Target target) {
    const auto program =
        parse("x: " + x + "[N, D]  w: " + w + "[E, F, D]  i: int32[N, 2]\nu: bf16[N, 2, F] = routed(x, w, i over E)");
    EXPECT_TRUE(program.ok());
    return make_plan(*program, {{"N", 300}, {"D", depth}, {"F", 96}, {"E", 4}}, {.target = target});
  };
  for (const std::string dtype : {"e4m3", "e4m3_128"}) {
    const auto on_device = plan_of(dtype, dtype, 256, Target::cuda), on_cpu = plan_of(dtype, dtype, 256, Target::cpu);
    ASSERT_TRUE(on_device.ok() && on_cpu.ok()) << dtype;
    ASSERT_EQ(on_device->steps.size(), 3u) << dtype;
    const auto& product = std::get<ops::MatmulProblem>(on_device->steps[1].kernel);
    EXPECT_TRUE(product.grouped);
    EXPECT_EQ(dtype_name(product.a.dtype), dtype);
    EXPECT_EQ(dtype_name(std::get<ops::RoutingProblem>(on_device->steps[0].kernel).values), dtype);
    ASSERT_EQ(on_cpu->steps.size(), 5u) << dtype;  // Both operands are converted
    EXPECT_EQ(on_cpu->steps[0].copy_description, dtype == "e4m3" ? "x to bf16" : "x from e4m3_128 to f32");
  }
  EXPECT_EQ(plan_of("e4m3", "bf16", 256, Target::cuda).error().message,
            "cannot run 'x' as e4m3: expected f32, bf16 or f16, or two operands of e4m3 or of e4m3_128, found e4m3");
  EXPECT_EQ(plan_of("int8", "int8", 256, Target::cpu).error().message,
            "cannot run 'x' as int8: expected f32, bf16 or f16, or two operands of e4m3 or of e4m3_128, found int8");
}

TEST(Plan, MultipliesNarrowWeightsAsTheyAreStoredOnDevices) {
  const auto steps_of = [](const std::string& text, std::int64_t rows) {
    const auto program = parse(text);
    EXPECT_TRUE(program.ok()) << text;
    const auto plan = make_plan(*program, {{"N", rows}, {"D", 512}, {"F", 96}}, {.target = Target::cuda});
    EXPECT_TRUE(plan.ok()) << text;
    return plan.ok() ? plan->steps : std::vector<PlanStep>{};
  };
  for (const std::string weights : {"int8", "e4m3", "mxfp8", "mxfp4", "nvfp4", "int4_64", "u4_128"}) {
    const std::string text = "x: bf16[N, D]  w: " + weights + "[F, D]\ny: bf16[N, F] = x * w";
    const std::vector<PlanStep> few = steps_of(text, 64), many = steps_of(text, 65);
    ASSERT_EQ(few.size(), 1u) << text;
    EXPECT_EQ(dtype_name(std::get<ops::MatmulProblem>(few[0].kernel).b.dtype), weights);
    ASSERT_EQ(many.size(), 2u) << text;
    EXPECT_TRUE(std::holds_alternative<ops::DequantizeLoops>(many[0].kernel)) << text;
    EXPECT_EQ(std::get<ops::MatmulProblem>(many[1].kernel).b.dtype, DType::bf16);
  }
  const std::vector<PlanStep> half = steps_of("x: f16[N, D]  w: u4_32[F, D]\ny: f16[N, F] = x * w", 65);
  ASSERT_EQ(half.size(), 2u);
  EXPECT_EQ(std::get<ops::DequantizeLoops>(half[0].kernel).result, DType::f16);
  const std::vector<PlanStep> left = steps_of("x: f16[N, D]  w: int8[F, D]\ny: f16[F, N] = w * x", 8);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(std::get<ops::MatmulProblem>(left[0].kernel).a.dtype, DType::int8);
  const std::vector<PlanStep> fused = steps_of(
      "x: bf16[N, D]  w: int8[F, D]  s: f32[F]  b: f32[F]\nz[N, F] = x * w\ny: bf16[N, F] = gelu(z * s + b)", 8);
  ASSERT_EQ(fused.size(), 1u);
  EXPECT_EQ(std::get<ops::FusedMatmul>(fused[0].kernel).product.b.dtype, DType::int8);
  const std::vector<PlanStep> wide = steps_of("x: f32[N, D]  w: int8[F, D]\ny: f32[N, F] = x * w", 8);
  ASSERT_EQ(wide.size(), 2u);
  EXPECT_EQ(std::get<ops::MatmulProblem>(wide[1].kernel).b.dtype, DType::f32);
}

// The weights are on the right or on the left, with any order of the result, a batch, or two summed dimensions.
TEST(Plan, MultipliesBlockScaledWeightsAsTheyAreStoredOnCpus) {
  for (const std::string_view text :
       {"x: bf16[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w", "x: bf16[N, D]  w: nvfp4[F, D]\ny: f32[N, F] = w * x",
        "x: bf16[N, D]  w: int4_128[F, D]\ny: bf16[N, F] = x * w", "x: f32[N, D]  w: u4_64[F, D]\ny: f32[N, F] = w * x",
        "x: bf16[N, D]  w: mxfp8[F, D]\ny: bf16[F, N] = x * w", "x: f32[N, D]  w: e4m3_128[F, D]\ny: f32[F, N] = w * x",
        "x: bf16[H, N, D]  w: mxfp8[H, F, D]\ny: bf16[H, N, F] = x * w",
        "x: bf16[N, H, D]  w: mxfp8[F, H, D]\ny: bf16[N, F] = x * w"}) {
    const std::vector<PlanStep> steps = scaled_steps(std::string(text));
    ASSERT_EQ(steps.size(), 1u) << text;
    const auto& p = std::get<ops::MatmulProblem>(steps[0].kernel);
    EXPECT_NE(is_block_scaled(p.a.dtype), is_block_scaled(p.b.dtype)) << text;
    EXPECT_FALSE(validate_scaled_operand(p)) << text << ": " << validate_scaled_operand(p).text();
  }
}

TEST(Plan, ConvertsOtherBlockScaledOperandsBeforeTheProduct) {
  // These are the smaller of two block-scaled operands, one that is smaller than the other operand, and one whose
  // blocks are not along the sum.
  for (const std::string_view text :
       {"x: mxfp8[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w", "x: mxfp8[N, D]  w: bf16[F, D]\ny: bf16[N, F] = x * w",
        "x: bf16[N, F]  w: mxfp4[F, D]\ny: bf16[N, D] = x * w"}) {
    const std::vector<PlanStep> steps = scaled_steps(std::string(text));
    ASSERT_EQ(steps.size(), 2u) << text;
    EXPECT_TRUE(std::holds_alternative<ops::DequantizeLoops>(steps[0].kernel)) << text;
    EXPECT_TRUE(std::holds_alternative<ops::MatmulProblem>(steps[1].kernel)) << text;
  }
  // Blocks of integers that are not along the sum become f32, which is exact, and so does the other operand.
  const std::vector<PlanStep> exact = scaled_steps("x: bf16[N, F]  w: u4_32[F, D]\ny: bf16[N, D] = x * w");
  ASSERT_EQ(exact.size(), 3u);
  EXPECT_EQ(std::get<ops::DequantizeLoops>(exact[0].kernel).result, DType::f32);
  EXPECT_EQ(std::get<ops::MatmulProblem>(exact[2].kernel).b.dtype, DType::f32);
  // An f32 scale needs products in f32.
  const std::vector<PlanStep> steps = scaled_steps("x: bf16[N, D]  w: e4m3_128[F, D]\ny: bf16[N, F] = x * w");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].copy_description, "x[N, D] to [N, D] order, bf16 to f32");
  EXPECT_EQ(std::get<ops::MatmulProblem>(steps[1].kernel).b.dtype, DType::e4m3_128);
}

// A result in place is computed as a new tensor; no kernel adds rows to an input.
TEST(Plan, RejectsRowsAddedInPlace) {
  EXPECT_EQ(planned("m: f32[P]\nm2: f32[P] replaces m = m + 1", {{"P", 4}}).steps.size(), 1u);
  const auto program = parse("c: f32[T, E]  x: f32[N, E]  i: int32[N]\ny: f32[T, E] replaces c = scatter(x, i over T)");
  const auto plan = make_plan(*program, {{"T", 4}, {"E", 4}, {"N", 2}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().to_string(),
            "cannot run 'y': expected a scatter into a new tensor, found one that adds rows to 'c'\n"
            "  hint: `ridge explain` counts it; to run, scatter into a new tensor and add that\n");
}

TEST(Shape, KeepsEveryAxisAndNamesLiteralsByTheirExtent) {
  const Program program = *parse("x: f32[1, A, 3]\ny[1, A, 3] = cos(x)");
  const Shape found = *make_shape(program.tensors[0], {{"A", 5}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].dim + "|" + found[1].dim + "|" + found[2].dim, "|A|3");
  EXPECT_EQ(found[0].stride, 15);
  EXPECT_EQ(found[1].stride, 3);
  EXPECT_EQ(found[2].extent, 3);
  EXPECT_EQ(format_shape(found), "[1, A, 3]");
  EXPECT_EQ(count_elements(found), 15);
  EXPECT_EQ(axis_along(found, "B").extent, 1);
  EXPECT_EQ(axis_along(found, "B").stride, 0);
  EXPECT_EQ(make_shape(program.tensors[0], {}).error().message, "dimension 'A' has no value");
  EXPECT_TRUE(make_shape(program.tensors[0], {{"A", INT64_MAX / 24}}).ok()) << "8 bytes an element";
  EXPECT_FALSE(make_shape(program.tensors[0], {{"A", INT64_MAX / 24 + 1}}).ok());
}

TEST(Shape, MergesDimensionsWithOneStride) {
  const Shape flat{{"A", 2, 7}, {"B", 1, 99}, {"C", 7, 1}};
  EXPECT_EQ(merged_stride(flat, {"A", "B", "C"}), 1) << "an axis of extent 1 has no effect";
  EXPECT_EQ(merged_stride(flat, {"B"}), 0);
  const Shape shape{{"A", 2, 60}, {"B", 3, 20}, {"C", 4, 5}, {"D", 5, 1}};
  EXPECT_EQ(merged_stride(shape, {"A", "B"}), 20);
  EXPECT_EQ(merged_stride(shape, {"B", "A"}), std::nullopt);
  EXPECT_EQ(merged_stride(shape, {"A", "C"}), std::nullopt);
  EXPECT_EQ(merged_stride(shape, {}), 0);
}

}  // namespace
}  // namespace ridge
