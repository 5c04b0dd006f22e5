// Compares the programs of layers with a recurrence for several tokens with those of one token after another, in values
// and in work.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/model/program.h"
#include "ridge/program/backward/gradient.h"
#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"
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

ModelConfig make_small(const std::string& name, std::int64_t chunk) {
  ModelConfig config = *find_config(name);
  config.width = 5;
  RecurrentConfig& sizes = *config.recurrent;
  sizes.groups = config.layers[0].mixer == Mixer::mamba1 ? 1 : 2;
  sizes.heads = 4;
  sizes.key_size = 3;
  sizes.value_size = config.layers[0].mixer == Mixer::mamba1 ? 1 : 2;
  sizes.conv_size = 3;
  if (sizes.step_rank > 0) sizes.step_rank = 2;
  sizes.chunk = chunk;
  for (LayerConfig& layer : config.layers) layer.has_feed_forward = layer.has_experts = false;
  return config;
}

std::vector<double> make_values(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& value : out) value = normal(random);
  return out;
}

TensorValues make_inputs(const Program& program, std::mt19937& random) {
  TensorValues out;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == TensorRole::input)
      out[tensor.name] = make_values(LiteralEvaluator(program).count_elements(tensor), random);
  return out;
}

// Returns the parameters of one token's program. Its convolution has a parameter for the new token, and those of
// earlier tokens with the earliest first; the one for several tokens begins with the new token.
TensorValues convert_parameters(const TensorValues& inputs, std::size_t conv_size) {
  TensorValues out = inputs;
  for (const auto& [name, values] : inputs) {
    if (!name.starts_with("conv")) continue;
    const std::size_t channels = values.size() / conv_size;
    std::vector<double>& earlier = out[name];
    earlier.clear();
    for (std::size_t back = conv_size - 1; back > 0; --back)
      earlier.insert(earlier.end(), values.begin() + static_cast<std::ptrdiff_t>(back * channels),
                     values.begin() + static_cast<std::ptrdiff_t>((back + 1) * channels));
    out["tap" + name.substr(4)].assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(channels));
  }
  return out;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-9 * (1 + std::abs(expected[i]))) << what << " " << i;
}

// Runs all tokens in one program, and one after another with the state and the convolution's inputs of the step before.
void expect_same_tokens(const ModelConfig& config, std::int64_t tokens, std::int64_t earlier) {
  const std::string text = *write_layer_program(config, {.new_tokens = tokens, .context = tokens + earlier}, 0);
  const Program all = load_text(text), one = load_text(*write_layer_program(config, {.context = 9}, 0));
  std::mt19937 random(static_cast<unsigned>(tokens));
  TensorValues inputs = make_inputs(all, random);
  if (earlier == 0)
    for (auto& [name, values] : inputs)
      if (name == "state" || name.starts_with("past")) values.assign(values.size(), 0);
  const TensorValues results = LiteralEvaluator(all).run(inputs);
  TensorValues step = convert_parameters(inputs, static_cast<std::size_t>(config.recurrent->conv_size));
  std::vector<double> z;
  const auto width = static_cast<std::ptrdiff_t>(config.width);
  for (std::ptrdiff_t t = 0; t < tokens; ++t) {
    step["x"].assign(inputs["x"].begin() + t * width, inputs["x"].begin() + (t + 1) * width);
    TensorValues now = LiteralEvaluator(one).run(step);
    z.insert(z.end(), now["z"].begin(), now["z"].end());
    step["state"] = now["next"];
    for (auto& [name, kept] : step) {
      if (!name.starts_with("past")) continue;
      const std::vector<double>& added = now.at(name.substr(4) + "0");
      kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(added.size()));
      kept.insert(kept.end(), added.begin(), added.end());
    }
  }
  expect_near(results.at("z"), z, text);
  expect_near(results.at("next"), step["state"], "the state after the last token");
}

TEST(RecurrentProgram, ComputesMambaAsOneTokenAfterAnother) {
  for (const char* name : {"codestral_mamba_7b", "nemotron_3_nano_30b_a3b", "falcon_mamba_7b"})
    for (const std::int64_t chunk : {2, 8})
      for (const std::int64_t earlier : {0, 4})
        for (const std::int64_t tokens : {2, 5, 6}) expect_same_tokens(make_small(name, chunk), tokens, earlier);
}

// For two tokens, the matrix that linear attention solves with has one element, so that substitution is the product.
TEST(RecurrentProgram, ComputesLinearAttentionOfTwoTokens) {
  expect_same_tokens(make_small("qwen3_next_80b_a3b", 8), 2, 0);
}

std::map<std::string, std::int64_t> count_flops(const std::string& text) {
  const auto explanation = explain(load_text(text), *find_machine("h100"), {}, {}, Thresholds::skipped);
  EXPECT_TRUE(explanation) << (explanation ? "" : explanation.error().message);
  std::map<std::string, std::int64_t> flops;
  if (!explanation) return flops;
  for (const Prediction& op : explanation->ops) flops[op.work.name] = static_cast<std::int64_t>(*op.flops);
  return flops;
}

// Work of a chunk's products, counted one pair of tokens after another.
TEST(RecurrentProgram, CountsProductsOfTokensInAChunk) {
  const std::int64_t tokens = 130, chunk = 64, heads = 32, keys = 16, size = 128, batch = 2;
  auto flops = count_flops(*write_layer_program(*find_config("qwen3_next_80b_a3b"),
                                                {.batch = batch, .new_tokens = tokens, .context = tokens}, 0));
  std::int64_t earlier = 0, up_to = 0;
  const std::int64_t padded = 3 * chunk;
  for (std::int64_t i = 0; i < padded; ++i)
    for (std::int64_t j = 0; j < padded; ++j) {
      earlier += i / chunk == j / chunk && j < i ? 1 : 0;
      up_to += i / chunk == j / chunk && j <= i ? 1 : 0;
    }
  EXPECT_EQ(flops["kk"], 2 * batch * keys * size * earlier);
  EXPECT_EQ(flops["qk"], 2 * batch * keys * size * up_to);
  EXPECT_EQ(flops["write1"], 2 * batch * heads * size * earlier);
  EXPECT_EQ(flops["erase1"], 2 * batch * heads * size * earlier * 2 / 3) << "the first chunk has no state before it";
  EXPECT_EQ(flops["read1"], 2 * batch * heads * size * up_to);
  EXPECT_EQ(flops["added"], 2 * batch * heads * size * size * padded);
  for (const char* name : {"erased", "read2"})
    EXPECT_EQ(flops[name], 2 * batch * heads * size * size * (padded - chunk)) << name;
  EXPECT_EQ(flops["states"], 2 * batch * heads * size * size * 3) << "a decay and a sum for each chunk";
  EXPECT_EQ(flops["q1"], 2 * batch * 4 * 2048 * tokens) << "four tokens of the convolution";
}

// Expects that no products but those that read the state itself have an operand in f32.
void expect_narrow_products(const std::string& text, const std::string& what) {
  const Program program = load_text(text);
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (product == nullptr) continue;
    const Tensor &left = program.tensors[product->left], &right = program.tensors[product->right];
    if (left.dtype != DType::f32 && right.dtype != DType::f32) continue;
    const auto is_state = [](const Tensor& tensor) {
      return tensor.name.starts_with("state") || tensor.name.starts_with("next");
    };
    EXPECT_TRUE(is_state(left) || is_state(right)) << what << ": " << statement.text;
  }
}

TEST(RecurrentProgram, MultipliesInTheFormatOfActivations) {
  int wide_states = 0;
  for (const std::string& name : shipped_names()) {
    const ModelConfig config = *find_config(name);
    if (!config.recurrent) continue;
    wide_states += config.recurrent->state_dtype == DType::f32 ? 1 : 0;
    for (const StepOptions& step : {StepOptions{.context = 4096}, StepOptions{.new_tokens = 100, .context = 100},
                                    StepOptions{.new_tokens = 100, .context = 4096}}) {
      const auto programs = write_programs(config, step);
      ASSERT_TRUE(programs) << name << ": " << programs.error().message;
      for (const PartProgram& part : programs->parts)
        expect_narrow_products(part.text, fmt::format("{}, {}, {} new tokens", name, part.name, step.new_tokens));
    }
  }
  EXPECT_GE(wide_states, 4) << "Qwen 3.5, Qwen 3 Next and Nemotron 3";
}

// The gradient of the state after a prompt is in f32, those of what the state is made of are not.
TEST(RecurrentProgram, MultipliesGradientsInTheFormatOfActivations) {
  for (const char* name : {"qwen3_next_80b_a3b", "nemotron_3_nano_30b_a3b", "codestral_mamba_7b", "falcon_mamba_7b"}) {
    const std::string text = *write_layer_program(*find_config(name), {.new_tokens = 128, .context = 128}, 0);
    const auto backward = write_backward_pass(load_text(text));
    ASSERT_TRUE(backward) << name << ": " << backward.error().message;
    expect_narrow_products(text + backward->text(), name);
  }
}

}  // namespace
}  // namespace ridge::model
