// Compares the gradients of layers of language models with differences of results, computed by literal loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/model/program.h"
#include "ridge/program/backward/gradient.h"
#include "ridge/program/load.h"
#include "ridge/roofline/testing/literal_evaluator.h"

namespace ridge::model {
namespace {

using ridge::testing::LiteralEvaluator;
using ridge::testing::TensorValues;

Program load_text(const std::string& text) {
  auto loaded = load_program(text, DType::bf16);
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message + "\n" + text);
  return loaded ? std::move(loaded->program) : Program{};
}

// Returns random values of the inputs; integers are positions or indices below 3.
TensorValues make_inputs(const Program& program, std::mt19937& random) {
  std::normal_distribution<double> normal;
  TensorValues out;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != TensorRole::input) continue;
    std::vector<double>& values = out[tensor.name];
    values.resize(static_cast<std::size_t>(LiteralEvaluator(program).count_elements(tensor)));
    for (double& value : values)
      value = dtype_info(tensor.dtype).is_integer ? static_cast<double>(random() % 3) : normal(random);
  }
  return out;
}

// Returns the sum over the results of their elements times their gradients.
double sum_results(const Program& forward, const BackwardPass& backward, const TensorValues& inputs) {
  const TensorValues values = LiteralEvaluator(forward).run(inputs);
  double sum = 0;
  for (const auto& [tensor, gradient] : backward.gradients) {
    const auto given = inputs.find(gradient);
    if (given == inputs.end() || gradient != "d" + tensor) continue;
    for (std::size_t i = 0; i < given->second.size(); ++i) sum += given->second[i] * values.at(tensor)[i];
  }
  return sum;
}

void expect_gradients(const std::string& text) {
  const Program forward = load_text(text);
  const auto backward = write_backward_pass(forward);
  ASSERT_TRUE(backward) << backward.error().message;
  const Program whole = load_text(text + backward->text());
  std::mt19937 random(1);
  TensorValues inputs = make_inputs(whole, random);
  const TensorValues values = LiteralEvaluator(whole).run(inputs);
  int compared = 0;
  for (const Tensor& tensor : forward.tensors) {
    if (tensor.role != TensorRole::input || dtype_info(tensor.dtype).is_integer) continue;
    if (tensor.name == "state") continue;  // A prompt does not read the state before it
    const auto gradient = backward->gradients.find(tensor.name);
    ASSERT_NE(gradient, backward->gradients.end()) << tensor.name;
    const std::vector<double>& expected = values.at(gradient->second);
    constexpr double step = 1e-5;
    const std::size_t i = random() % expected.size();
    double& x = inputs[tensor.name][i];
    const double before = x;
    x = before + step;
    const double above = sum_results(forward, *backward, inputs);
    x = before - step;
    const double below = sum_results(forward, *backward, inputs);
    x = before;
    EXPECT_NEAR((above - below) / (2 * step), expected[i], 1e-5 * (1 + std::abs(expected[i])))
        << tensor.name << "\n"
        << text << backward->text();
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

ModelConfig make_small(const std::string& name) {
  ModelConfig config = *find_config(name);
  config.width = 6;
  config.vocabulary = 5;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = 4;
  config.feed_forward_width = 7;
  config.quantization = {};
  if (config.window > 0) config.window = 2;
  return config;
}

constexpr StepOptions small_step{.batch = 2, .new_tokens = 3, .context = 3, .has_all_logits = true};

TEST(ModelGradient, AgreesWithDifferencesForLayers) {
  for (const char* name : {"llama_3_8b", "qwen3_8b", "qwen2_5_7b", "gemma_2_2b", "gpt_3_175b"}) {
    ModelConfig config = make_small(name);
    if (config.model_type == "gemma2") config.attention_softcap = 5;
    expect_gradients(*write_layer_program(config, small_step, 0));
    if (config.layers[0].is_sliding) expect_gradients(*write_layer_program(config, small_step, 1));
  }
}

TEST(ModelGradient, AgreesWithDifferencesForLatentAttention) {
  ModelConfig config = make_small("deepseek_v3");
  config.latent = LatentConfig{.query_rank = 3, .rank = 5, .nope_size = 2, .rope_size = 2, .value_size = 3};
  ASSERT_FALSE(config.layers[0].has_experts);
  expect_gradients(*write_layer_program(config, small_step, 0));
}

TEST(ModelGradient, AgreesWithDifferencesForRecurrences) {
  for (const char* name : {"codestral_mamba_7b", "falcon_mamba_7b", "qwen3_next_80b_a3b"}) {
    ModelConfig config = make_small(name);
    RecurrentConfig& sizes = *config.recurrent;
    sizes.groups = config.layers[0].mixer == Mixer::mamba1 ? 1 : 2;
    sizes.heads = 4;
    sizes.key_size = 3;
    sizes.value_size = config.layers[0].mixer == Mixer::mamba1 ? 1 : 2;
    sizes.conv_size = 3;
    if (sizes.step_rank > 0) sizes.step_rank = 2;
    sizes.chunk = 2;  // The last chunk of three tokens is not full
    config.layers[0].has_experts = config.layers[0].has_feed_forward = false;
    expect_gradients(*write_layer_program(config, small_step, 0));
  }
}

// Along the dimension of a scan or not, with factors and summands that lack other dimensions.
TEST(ModelGradient, AgreesWithDifferencesForScansAndSums) {
  for (const char* operands : {"a: f32[N, T]   x: f32[N, T]", "a: f32[T]   x: f32[N]", "a: f32[N]   x: f32[T]"})
    expect_gradients(
        fmt::format("dims N = 2, T = 4\n{}\nh[N, T] = scan(a * h + x over T)\ny[N, T] = exp(h)\n", operands));
  expect_gradients("dims N = 2, T = 4\nx: f32[N, T]\ns[N, T] = cumsum(x over T)\ny[N, T] = exp(s)\n");
  expect_gradients(
      "dims N = 3, V = 4, D = 2\nx: f32[N, D]   ids: int32[N]\ns[V, D] = scatter(x, ids over V)\ny[V, D] = exp(s)\n");
}

// All elements of a sum have its gradient, which is repeated along its dimensions.
TEST(ModelGradient, AgreesWithDifferencesForOperandsThatAreOnlySummed) {
  for (const char* statement : {"y[N] = sum(x over D, T)", "y[N] = mean(x over D, T)", "y[N, T] = exp(sum(x over D))",
                                "y[T] = sum(x * x over N, D) + sum(x over N, D)"})
    expect_gradients(fmt::format("dims N = 2, D = 3, T = 2\nx: f32[N, D, T]\n{}\n", statement));
  const Program program = load_text("dims N = 2, D = 3, T = 2\nx: f32[N, D, T]\ny[N] = sum(x over D, T)\n");
  EXPECT_EQ(write_backward_pass(program)->text(),
            "data dy: f32[N]\ndx[N, D, T] = dy * (index(D) >= 0) * (index(T) >= 0)\n");
  // Like the experts of Llama 4, whose rows are scaled before the experts and then only added.
  expect_gradients(
      "dims N = 3, K = 2, X = 4, D = 2\nn: f32[N, D]   r: f32[N, X]   i: int32[N, K]\ne0[N, K] = gather(r, i over X)\n"
      "e[N, K] = sigmoid(e0)\nx[N, K, D] = n * e\nd[N, K, D] = exp(x)\ny[N, D] = sum(d over K)\n");
}

TEST(ModelGradient, AgreesWithDifferencesForTheEmbeddingAndTheHead) {
  ModelConfig config = make_small("gemma_2_2b");
  config.logit_softcap = 3;
  const auto programs = write_programs(config, small_step);
  ASSERT_TRUE(programs) << programs.error().message;
  expect_gradients(programs->parts.front().text);
  expect_gradients(programs->parts.back().text);
}

TEST(ModelGradient, AgreesWithDifferencesForFunctions) {
  const std::string inputs = "dims N = 2, D = 3\nx: f32[N, D]   w: f32[D]   i: int32[N]\n";
  for (const char* expression :
       {"gelu(x) * w", "relu(x) - w", "sigmoid(x * w)", "(clamp(w, -0.5, 0.5) + 1) * min(x, 0.3) * sigmoid(1.702 * x)",
        "x * w / sum(x * x over D)", "exp(-x) + log(w * w + 1)", "sqrt(x * x + 1) * rsqrt(w * w + 2)", "max(x, w)",
        "w * mean(x * w over D)", "where(x < w, x * x, w)", "softmax(softmax(x over D) * w over D)"})
    expect_gradients(inputs + "y[N, D] = " + expression + "\n");
}

// A gradient that is computed in a wider format than its tensor's is stored in the tensor's: one term, a sum of terms,
// or the gradient of a sum itself.
TEST(ModelGradient, StoresGradientsInTheFormatOfTheirTensors) {
  const auto write = [](const std::string& text) {
    const auto backward = write_backward_pass(load_text("dims N = 2\n" + text));
    EXPECT_TRUE(backward) << backward.error().message;
    EXPECT_TRUE(load_program("dims N = 2\n" + text + backward->text(), DType::bf16)) << backward->text();
    return backward->text();
  };
  EXPECT_EQ(write("x: bf16[N]   w: f32[N]\ny[N] = x * w\n"), "data dy: f32[N]\ndw[N] = x * dy\ndx: bf16[N] = dy * w\n");
  EXPECT_EQ(write("x: bf16[N]\ny: f32[N] = exp(x)\nz[N] = exp(x)\n"),
            "data dz: bf16[N]\ndata dy: f32[N]\ndx_1[N] = dz * z\ndx_2[N] = dy * y\ndx: bf16[N] = dx_1 + dx_2\n");
  EXPECT_EQ(write("x: bf16[N]   w: f32[N]\ny[N] = x + w\n"), "data dy: f32[N]\ndx: bf16[N] = dy\n");
  EXPECT_EQ(write("x: e4m3[N]   w: bf16[N]\ny[N] = x * w\n"), "data dy: bf16[N]\ndw[N] = x * dy\ndx[N] = dy * w\n")
      << "fewer than 16 bits hold weights";
}

// The rows of x and of the gradient are sorted by expert: 3 tokens with 2 of 4 experts are 2 rows for each, rounded up.
TEST(ModelGradient, MultipliesRowsOfExperts) {
  const Program program = load_text(
      "dims N = 3, K = 2, X = 4, D = 5, F = 6\nx: bf16[N, D]   w: bf16[X, F, D]   i: int32[N, K]\n"
      "y[N, K, F] = routed(x, w, i over X)\n");
  const auto backward = write_backward_pass(program);
  ASSERT_TRUE(backward) << backward.error().message;
  EXPECT_EQ(backward->text(),
            "data dy: bf16[N, K, F]\n"
            "dims rows = 2\n"
            "data x_rows: bf16[X, rows, D]\n"
            "data dy_rows: bf16[X, rows, F]\n"
            "data dy_x: bf16[N, K, D]\n"
            "dw[X, F, D] = dy_rows * x_rows\n"
            "dy_x_rows[X, rows, D] = dy_rows * w\n"
            "dx[N, D] = sum(dy_x over K)\n");
  EXPECT_EQ(load_text(program.text + backward->text()).statements.size(), 4u);
}

TEST(ModelGradient, ReportsWhatHasNoGradient) {
  const auto fail = [](const std::string& text) {
    const auto backward = write_backward_pass(load_text(text));
    return backward ? "none" : backward.error().to_string();
  };
  EXPECT_EQ(fail("dims N = 2\nx: f32[N]\ny[N] = sort(x over N)\n"),
            "no gradient of sort is known: y[N] = sort(x over N)\n");
  EXPECT_EQ(fail("dims N = 2\nx: f32[N]   a: f32[N]\ny[N] = scan(a * y * y + x over N)\n"),
            "no gradient of scan other than a * h + x with tensors a and x is known: y[N] = scan(a * y * y + x over "
            "N)\n");
  EXPECT_EQ(fail("dims N = 2\nx: f32[N]\ny[N] = floor(x)\n"), "no gradient of floor is known\n");
  EXPECT_EQ(fail("dims N = 2\nx: f32[N, 4]\ny[N, 4] = exp(x)\n"),
            "expected named axes on one device for gradients, found 4 in x\n");
  EXPECT_EQ(fail("dims N = 1, K = 2, X = 4, D = 5, F = 6\nx: bf16[N, D]   w: bf16[X, F, D]   i: int32[N, K]\n"
                 "y[N, K, F] = routed(x, w, i over X)\n"),
            "expected at least 4 rows for 4 experts, found 2\n  hint: each expert must have a row: use more tokens\n");
}

}  // namespace
}  // namespace ridge::model
