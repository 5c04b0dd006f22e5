// Routines on this CPU: random ones against the reference, both against hand-computed numbers, and invalid indices.
#include <gtest/gtest.h>

#include <cstdio>

#include "ridge/measure/run.h"
#include "ridge/plan/plan.h"
#include "ridge/roofline/testing/random_routine.h"
#include "ridge/run/memory.h"
#include "ridge/run/npy.h"
#include "ridge/run/run_step.h"

namespace ridge {
namespace {

Result<Measurement> measure_program(const std::string& text, const Bindings& dims, const RunOptions& options) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << text << (program.ok() ? "" : program.error().to_string());
  RIDGE_TRY(explanation, explain(*program, *find_machine("h100"), dims));
  return run_program(*program, explanation, options);
}

TEST(Run, routines_match_the_reference) {
  for (unsigned seed = 0; seed < testing::program_count(300); ++seed) {
    const testing::RandomRoutine made = testing::RandomRoutineMaker(seed).make();
    const auto m =
        measure_program(made.text, made.sizes, {.seed = seed, .threads = 1 + static_cast<int>(seed % 3), .passes = 1});
    ASSERT_TRUE(m.ok()) << made.text << m.error().to_string();
    EXPECT_FALSE(m->mismatch) << made.text << m->mismatch->to_string();
    EXPECT_EQ(m->ops[0].checked, m->ops[0].elements) << made.text;
  }
}

TEST(Run, routines_run_between_other_statements) {
  const std::string text =
      "dims V = 50, N = 7, D = 24\n"
      "t: bf16[V, D]  i: int32[N]  w: bf16[D, D2]\n"
      "r[N, D] = gather(t, i over V)\n"
      "u[N, D2] = r * w\n"
      "c[N, D2] = cumsum(u over N)\n"
      "y: f32[N, D2] = gelu(c) + 1";
  for (const bool fuse : {false, true}) {
    const auto m = measure_program(text, {{"D2", 16}}, {.fuse = fuse, .passes = 1});
    ASSERT_TRUE(m.ok()) << m.error().to_string();
    EXPECT_FALSE(m->mismatch) << m->mismatch->to_string();
  }
}

// All rows have the scores of one bias, so that they choose the same two experts.
TEST(Run, notes_rows_that_share_few_experts) {
  const std::string in = "x: f32[N, D]  w: f32[E, F, D]\n", routed = "u: f32[N, 2, F] = routed(x, w, i over E)";
  const Bindings dims{{"N", 40}, {"D", 16}, {"E", 16}, {"F", 8}};
  const auto same = measure_program(
      in + "s: f32[N]  b: f32[E]\nr[N, E] = 0 * s + b\ni[N, 2] = topk(r over E)\n" + routed, dims, {.passes = 1});
  ASSERT_TRUE(same.ok()) << same.error().to_string();
  EXPECT_EQ(same->ops.back().note,
            "its indices name 2 of 16 experts; the bound counts 15.9, the mean of uniform indices");
  const auto uniform = measure_program(in + "i: int32[N, 2]\n" + routed, dims, {.passes = 1});
  ASSERT_TRUE(uniform.ok()) << uniform.error().to_string();
  EXPECT_EQ(uniform->ops.back().note, "");
}

TEST(Run, layers_of_routines_match_the_reference) {
  const std::vector<std::string> programs{
      "dims B = 9, D = 64, F = 32\n"
      "x: bf16[B, D]   w: mxfp4[F, D]   v: nvfp4[D, F]\n"
      "q[B, D] = quantize(x, mxfp8)\nu[B, F] = q * w\ng[B, F] = gelu(u)\ny: f32[B, D] = g * v",
      "dims B = 3, S = 2, D = 256\n"
      "x: bf16[B, S, D]   w: e4m3_128[S, D]\n"
      "q[S, B, D] = quantize(x, e4m3, block = 128)\ny: f32[B, S] = q * w\nz: bf16[S, D] = w * w",
      "dims B = 7, D = 128, F = 64\n"
      "x: bf16[B, D]   w: int4_128[F, D]   v: u4_32[D, F]\n"
      "u[B, F] = x * w\nq[B, F] = quantize(u, u4, block = 64)\ny: f32[B, D] = u * v",
      "dims B = 20, D = 128, F = 64\n"
      "x: bf16[B, D]   w: int4_64[D, F]   a: f32[F, D]\n"  // blocks along F, not along the sum
      "y: bf16[B, F] = x * w\nq[F, D] = quantize(a, int4, block = 32)\nr[F, D] = quantize(a, u4, block = 128)\n"
      "z: f32[B, F] = x * q",
      "dims B = 9, D = 12, F = 20, E = 5\n"
      "x: bf16[B, D]   r: bf16[E, D]   up: bf16[E, F, D]   down: bf16[E, D, F]\n"
      "s: f32[B, E] = x * r\np: f32[B, E] = softmax(s over E)\ni[B, 2] = topk(p over E)\n"
      "u[B, 2, F] = routed(x, up, i over E)\nh[B, 2, F] = silu(u)\n"
      "o[B, 2, D] = routed(h, down, i over E, capacity = 3)\nc[B, 2] = gather(p, i over E)\ny: bf16[B, D] = c * o",
      "dims B = 30, D = 24, F = 40, E = 7\n"  // weights contiguous along F, and another row order than x's
      "x: bf16[B, D]   up: bf16[E, D, F]   i: int32[B, 3]   down: f16[E, F, D]   z: bf16[D, B]\n"
      "u: f16[B, 3, F] = routed(x, up, i over E)\no: f32[B, 3, D] = routed(u, down, i over E, capacity = 4)\n"
      "t: f32[F, B, 3] = routed(x, up, i over E)\ns: f32[B, 3, F] = routed(z, up, i over E)",
      // Weights per row, per choice, or contiguous along the experts: no grouped product.
      "dims B = 5, D = 8, F = 16, E = 3\n"
      "x: bf16[B, D]   r: bf16[E, B, F, D]   c: bf16[E, 2, F, D]   e: bf16[D, F, E]   i: int32[B, 2]\n"
      "u: f32[B, 2, F] = routed(x, r, i over E)\nv: f32[B, 2, F] = routed(x, c, i over E)\n"
      "w: f32[B, 2, F] = routed(x, e, i over E)",
      "dims B = 2, T = 33, D = 5, N = 4\n"
      "x: bf16[B, T, D]   dt: bf16[B, T, D]   A: f32[D, N]   Bt: bf16[B, T, N]   Ct: bf16[B, T, N]\n"
      "a[B, T, D, N] = exp(-abs(dt * A))\nb[B, T, D, N] = dt * x * Bt\n"
      "h[B, T, D, N] = scan(a * h + b over T)\ny: bf16[B, T, D] = h * Ct",
      "x: f32[N, T]\nh: f32[T, N] = scan(max(h, x) + index(T) * 0.5 - size(N) over T)",
      "dims B = 2, S = 5, T = 7, H = 8, G = H/4, E = 6\n"
      "q: bf16[B, S, H, E]   k: bf16[B, T, G, E]   v: bf16[B, T, G, E]\n"
      "s[B, H, S, T] = q * k\np[B, H, S, T] = softmax(s over T)\no: bf16[B, S, H, E] = p * v",
      "dims H = 6, G = H/3, B = 4, D = 5\nx: f32[B, H]   g: f32[D, G]\ny: f32[B, D] = x * g",
      "dims S = (5, 2, 4), T = S, H = 3, E = 6\n"
      "q: bf16[S, H, E]   k: bf16[T, H, E]   v: bf16[T, H, E]\ns[S, H, T] = q * k\n"
      "p[S, H, T] = softmax(where((sequence(S) == sequence(T)) * (index(T) <= index(S)), s, -inf) over T)\n"
      "o: bf16[S, H, E] = p * v\nz: f32[S] = sequence(S) + sum(q over H, E)",
      "dims a = 5, b = 6, c = 7, d = 8\nA[a, b] * B[b, c] * C[c, d] -> D[a, d]"};
  for (const std::string& text : programs)
    for (const bool fuse : {false, true}) {
      const auto m = measure_program(text, text.find("dims") == 0 ? Bindings{} : Bindings{{"N", 4}, {"T", 9}},
                                     {.fuse = fuse, .passes = 1});
      ASSERT_TRUE(m.ok()) << text << "\n" << m.error().to_string();
      EXPECT_FALSE(m->mismatch) << text << "\n" << m->mismatch->to_string();
    }
}

TEST(Run, transposed_convolutions_between_other_statements_match_the_reference) {
  const std::vector<std::string> programs{
      "x: bf16[N, C, 12, 11]   w: bf16[C, K, 2, 2]   b: f32[K]   v: bf16[C, K, 1, 1]\n"
      "a[N, K, 24, 22] = conv_transpose(x, w, stride = 2)\nz[N, K, 24, 22] = gelu(a + b)\n"
      "y: bf16[N, C, 24, 22] = conv(z, v)",
      "x: f16[N, 4, 4, 4, C]   w: f32[C, 3, 2, 2, 2]\n"
      "a[N, 12, 11, 12, K] = conv_transpose(x, w, stride = 3, groups = 2)\ny: f16[N, K] = max(a over 12, 11, 12)",
      "x: f32[4, 4, 4, 4]   w: f32[4, 4, 4, 4]\ny: f32[4, 4, 7, 7] = conv_transpose(x, w, padding = 0)",
      "x: f32[N, 1, 1]   w: f32[1, 1, 1]\ny: bf16[N, 1, 1] = conv_transpose(x, w)",
      "x: bf16[N, C, 9]   w: bf16[C, 1, 5]\ny: f32[N, C, 18] = conv_transpose(x, w, padding = 2, dilation = 3, groups "
      "= C)"};
  for (const std::string& text : programs)
    for (const bool fuse : {false, true}) {
      const auto m = measure_program("dims N = 3, C = 6, K = 4\n" + text, {}, {.fuse = fuse, .passes = 1});
      ASSERT_TRUE(m.ok()) << text << "\n" << m.error().to_string();
      EXPECT_FALSE(m->mismatch) << text << "\n" << m->mismatch->to_string();
    }
}

TEST(Run, convolutions_with_equal_sizes_or_channels_last_match_the_reference) {
  const std::vector<std::string> programs{
      // The batch, both channels and the window positions are 8; the batch is 8 again in the result.
      "x: f32[8, 8, 8, 8]   w: bf16[8, 8, 3, 3]\n"
      "y[8, 8, 8, 8] = conv(x, w, padding = 1)\nz: bf16[8, 8, 8, 8] = relu(y) * 2 - x",
      "x: bf16[N, 6, 9, 9]   w: bf16[6, 6, 3, 3]   b: bf16[6]   s: f32[N, 6]\n"
      "y[N, 6, 9, 9] = conv(x, w, padding = 1)\nz: f32[N, 6, 9, 9] = relu(y + b) * s + x\n"
      "m: f32[N, 6] = mean(z over 9, 9)\np: f32[N, 6, 9, 9] = z - max(z over 9, 9)\nq: f32[N, 6, 9, 9] = z * s",
      "x: f32[N, 5, 6, 4, 7]   w: f32[9, 2, 3, 2, 7]   b: f32[9]\n"
      "y[N, 4, 4, 3, 9] = conv(x, w)\nz: f32[N, 4, 4, 3, 9] = gelu(y + b)",
      "x: f16[N, 5, 6, C]   w: bf16[K, 2, 3, C]\ny: f32[N, 4, 4, K] = conv(x, w)",
      "x: bf16[N, 7, 7, C]   w: f32[K, 3, 3, 3]   r: bf16[N, 7, 7, K]\n"
      "y[N, 7, 7, K] = conv(x, w, padding = 1, groups = 2)\nz: bf16[N, 7, 7, K] = relu(y + r)",
      "x: bf16[N, 7, 7, C]   w: bf16[C, 3, 3, 1]   b: bf16[C]\n"
      "y[N, 4, 4, C] = conv(x, w, padding = 1, stride = 2, groups = C)\nz: bf16[N, 4, 4, C] = relu(y + b)",
      "x: f16[N, 7, C]   w: f16[C, 3, 1]\ny: bf16[N, 5, C] = conv(x, w, groups = C)"};
  for (const std::string& text : programs)
    for (const bool fuse : {false, true}) {
      const auto m = measure_program("dims N = 3, C = 6, K = 4\n" + text, {}, {.fuse = fuse, .passes = 1});
      ASSERT_TRUE(m.ok()) << text << "\n" << m.error().to_string();
      EXPECT_FALSE(m->mismatch) << text << "\n" << m->mismatch->to_string();
    }
}

template <class T> Array array_of(std::vector<T>& values, DType dtype) {
  return {dtype, static_cast<std::int64_t>(values.size()), reinterpret_cast<std::byte*>(values.data())};
}

// Runs the plan of a program, which must have no copies, and returns its results. Intermediate tensors must be f32.
template <class T> std::vector<float> run_plan(const std::string& text, const Bindings& dims, std::vector<float> x,
                                               std::vector<T> other, std::size_t results) {
  const auto program = parse(text).value();
  const auto planned = make_plan(program, program.bind_sizes(dims).value());
  EXPECT_TRUE(planned.ok()) << planned.error().to_string();
  std::vector<float> y(results);
  std::vector<void*> tensors{x.data()};
  if (!other.empty()) tensors.push_back(other.data());
  tensors.push_back(y.data());
  std::vector<std::vector<float>> intermediates;
  for (std::size_t i = tensors.size(); i < planned->buffers.size(); ++i)
    tensors.push_back(intermediates.emplace_back(planned->buffers[i].elements).data());
  for (const PlanStep& step : planned->steps) {
    std::vector<void*> data;
    for (const int buffer : step.buffers) data.push_back(tensors.at(static_cast<std::size_t>(buffer)));
    run_step(step, data, 1);
  }
  return y;
}

TEST(Loops, match_hand_computed_numbers) {
  using Floats = std::vector<float>;
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(run_plan<std::int32_t>("t: f32[V, D] i: int32[N]\ny: f32[N, D] = gather(t, i over V)",
                                   {{"V", 3}, {"D", 2}, {"N", 2}}, {1, 2, 3, 4, 5, 6}, Ids{2, 0}, 4),
            (Floats{5, 6, 1, 2}));
  EXPECT_EQ(run_plan<std::int32_t>("x: f32[N] i: int32[N]\ny: f32[V] = scatter(x, i over V)", {{"V", 3}, {"N", 4}},
                                   {1, 2, 3, 4}, Ids{2, 0, 2, 2}, 3),
            (Floats{2, 0, 8}));
  EXPECT_EQ(run_plan<float>("x: f32[T]\ny: f32[T] = cumsum(x over T)", {{"T", 4}}, {1, 2, 3, 4}, {}, 4),
            (Floats{1, 3, 6, 10}));
  EXPECT_EQ(run_plan<float>("x: f32[N, C, H] w: f32[K, C, 3]\ny: f32[N, K, H] = conv(x, w, padding = 1)",
                            {{"N", 1}, {"C", 1}, {"K", 1}, {"H", 4}}, {1, 2, 3, 4}, Floats{1, 10, 100}, 4),
            (Floats{210, 321, 432, 43}));
  const std::string transposed = "x: f32[N, C, H] w: f32[C, K, 3]\ny: f32[N, K, P] = conv_transpose(x, w, ";
  EXPECT_EQ(run_plan<float>(transposed + "stride = 2)", {{"N", 1}, {"C", 1}, {"K", 1}, {"H", 2}, {"P", 6}}, {1, 2},
                            Floats{1, 10, 100}, 6),
            (Floats{1, 10, 102, 20, 200, 0}));
  EXPECT_EQ(run_plan<float>(transposed + "stride = 2, padding = 2)", {{"N", 1}, {"C", 2}, {"K", 1}, {"H", 2}, {"P", 1}},
                            {1, 2, 3, 4}, Floats{1, 10, 100, 1000, 10000, 100000}, 1),
            (Floats{304102}));
  EXPECT_EQ(run_plan<std::int32_t>("x: f32[T] t: int32[1]\ny: f32[T] = rotary(x, t over T)", {{"T", 4}}, {1, 2, 3, 4},
                                   Ids{0}, 4),
            (Floats{1, 2, 3, 4}));
  const Floats row{3, 1, 2, 1};
  EXPECT_EQ(run_plan<float>("x: f32[T]\ny: f32[T] = sort(x over T)", {{"T", 4}}, row, {}, 4), (Floats{1, 1, 2, 3}));
  EXPECT_EQ(run_plan<float>("x: f32[T]\ny: f32[T] = sort(x over T, descending = 1)", {{"T", 4}}, row, {}, 4),
            (Floats{3, 2, 1, 1}));
  EXPECT_EQ(run_plan<float>("x: f32[T]\ny: f32[2] = max_pool(x over T, window = 3)", {{"T", 4}}, row, {}, 2),
            (Floats{3, 2}));
  EXPECT_EQ(run_plan<float>("x: f32[T]\ny: f32[3] = avg_pool(x over T, window = 2, stride = 2, padding = 1)",
                            {{"T", 4}}, row, {}, 3),
            (Floats{1.5, 1.5, 0.5}));
  EXPECT_EQ(run_plan<float>("x: f32[N, C, H] w: f32[C, 1, 2]\ny: f32[N, C, P] = conv(x, w, stride = 2, groups = C)",
                            {{"N", 1}, {"C", 2}, {"P", 1}, {"H", 2}}, {1, 2, 3, 4}, Floats{1, 10, 100, 1000}, 2),
            (Floats{21, 4300}));
}

TEST(Run, refuses_indices_out_of_range) {
  std::vector<std::int32_t> ids{0, 3, 50};
  const std::string path = ::testing::TempDir() + "ridge_ids.npy";
  ASSERT_TRUE(write_npy(path, array_of(ids, DType::int32), {3}).ok());
  const std::string text = "t: bf16[V, D] i: int32[N]\ny: bf16[N, D] = gather(t, i over V)";
  const RunOptions options{.in = {{"i", path}}, .passes = 1};
  const auto wrong = measure_program(text, {{"V", 50}, {"D", 8}, {"N", 3}}, options);
  EXPECT_EQ(wrong ? "accepted" : wrong.error().to_string(),
            "index 2 of 'i' is 50; expected 0 to 49, because it indexes V\n"
            "  hint: correct the file, or change the dimension's size with -d\n");
  EXPECT_TRUE(measure_program(text, {{"V", 51}, {"D", 8}, {"N", 3}}, options).ok());
  std::remove(path.c_str());
}

// A CPU's scatter to bf16 has a buffer for f32 sums; a device's has none.
TEST(Run, plans_a_scatter_for_either_target) {
  const auto program = parse("x: bf16[N, D] i: int32[N]\ny: bf16[V, D] = scatter(x, i over V)").value();
  const Bindings dims{{"V", 5}, {"D", 8}, {"N", 3}};
  for (const Target target : {Target::cpu, Target::cuda}) {
    const auto planned = make_plan(program, dims, {.target = target});
    ASSERT_TRUE(planned.ok()) << planned.error().to_string();
    ASSERT_EQ(planned->steps.size(), 1u);
    EXPECT_TRUE(std::holds_alternative<ops::GatherScatterLoops>(planned->steps[0].kernel));
    EXPECT_EQ(planned->steps[0].buffers.size(), target == Target::cpu ? 4u : 3u);
  }
}

std::vector<std::string> list_kernels(const std::string& text, const FuseOptions& options) {
  const auto planned = make_plan(parse(text).value(), {{"N", 5}, {"D", 8}, {"F", 16}, {"E", 3}}, options);
  if (!planned) return {planned.error().to_string()};
  std::vector<std::string> out;
  for (const PlanStep& step : planned->steps) {
    if (const auto* product = std::get_if<ops::MatmulProblem>(&step.kernel))
      out.emplace_back(product->grouped ? "grouped product" : "product");
    else
      out.emplace_back(std::holds_alternative<ops::RoutingProblem>(step.kernel) ? "rows" : "loops");
  }
  return out;
}

TEST(Run, plans_routed_rows_as_one_grouped_product) {
  const std::vector<std::string> three{"rows", "grouped product", "rows"};
  const std::string in = "x: bf16[N, D]  w: bf16[E, F, D]  v: bf16[E, D, F]  i: int32[N, 2]\n";
  for (const Target target : {Target::cpu, Target::cuda}) {
    EXPECT_EQ(list_kernels(in + "u: bf16[N, 2, F] = routed(x, w, i over E)", {.target = target}), three);
    EXPECT_EQ(list_kernels(in + "u: f32[N, 2, F] = routed(x, v, i over E)", {.target = target}), three);
  }
  const std::string transposed = in + "u: bf16[F, N, 2] = routed(x, w, i over E)";
  for (const Target target : {Target::cpu, Target::cuda})
    EXPECT_EQ(list_kernels(transposed, {.target = target}), std::vector<std::string>{"loops"});
  const std::string limited = in + "u: bf16[F, N, 2] = routed(x, w, i over E, capacity = 4)";
  EXPECT_EQ(list_kernels(limited, {.target = Target::cpu}), std::vector<std::string>{"loops"});
  EXPECT_EQ(
      list_kernels(limited, {.target = Target::cuda}).at(0),
      "cannot run 'u: bf16[F, N, 2] = routed(x, w, i over E, capacity = 4)' with a capacity on a device: expected the "
      "dimensions of the indices first in the result and (all, or all but the last) first in the routed tensor; and "
      "weights of the same dtype, with a matrix for each expert that is contiguous along the summed dimensions or "
      "along "
      "those of the result\n"
      "  hint: write u[N, 2, F] = routed(x, w, i over E, capacity = 8) with x[N, D], w[E, F, D] and i[N, 2]; `ridge "
      "run "
      "--on cpu` takes any order\n");
}

}  // namespace
}  // namespace ridge
