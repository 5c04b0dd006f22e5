// Bytes of a step's modules: what a kernel must move, and no intermediate.
#include "ridge/plan/model/step.h"

#include <gtest/gtest.h>

#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

ModuleStep find_module(const std::string& model, const model::StepOptions& options, std::string_view name) {
  const auto programs = model::write_programs(*model::find_config(model), options);
  EXPECT_TRUE(programs) << programs.error().message;
  const auto step = predict_model_step(*programs, *find_machine("h200"));
  EXPECT_TRUE(step) << step.error().message;
  for (const ModuleStep& module : step->modules)
    if (module.module == name) return module;
  ADD_FAILURE() << name;
  return {};
}

TEST(ModelStep, StoresNoScores) {
  // LLM-Viewer #26: attention of a prompt stores tokens x size x heads, not tokens^2 x heads. Queries, keys, values and
  // results of Llama 2 7B have 32 heads of 128 for each of 2 048 tokens.
  const ModuleStep attention = find_module("llama_2_7b", {.new_tokens = 2048, .context = 2048}, "attention");
  EXPECT_EQ(attention.bytes, 4 * 2048 * 32 * 128 * 2.0);
}

TEST(ModelStep, ReadsAndWritesTheState) {
  // A sequence's state of 32 x 128 x 128 f32 numbers is read and written. Three earlier inputs of the convolution of
  // 8 192 channels are read.
  const ModuleStep linear = find_module("qwen3_next_80b_a3b", {.batch = 4, .context = 8192}, "linear attention");
  const double state = 4 * 32 * 128 * 128 * 4.0, inputs = 4 * 3 * 8192 * 2.0;
  EXPECT_EQ(linear.cache_bytes, state + inputs);
  EXPECT_GT(linear.bytes, 2 * state + inputs);
  EXPECT_LT(linear.bytes, 1.03 * (2 * state + inputs));
  EXPECT_EQ(linear.limiter, Limiter::memory);
}

TEST(ModelStep, MultipliesWhatItReadsOfTheStateAtThePeakOfWeights) {
  // What a token reads of a state in f32 is multiplied in bf16, at 989.5 TFLOP/s, as are the layers after it.
  const auto answer = predict_model(*model::find_config("qwen3_5_27b_text"),
                                    {.counts = {.context = 4096, .batch = 256}}, *find_machine("h200"));
  ASSERT_TRUE(answer) << answer.error().message;
  for (const ModuleStep& each : answer->decode.modules)
    if (each.limiter == Limiter::compute) EXPECT_LT(each.bound_s, 1.02 * each.flops / 989.5e12) << each.module;
  EXPECT_LT(answer->decode.bound_s, 0.027);
}

TEST(ModelStep, WritesTheStateOfAPromptOnce) {
  // A prompt begins without a state, and stores the last one. Chunks keep theirs inside the kernel, which reads
  // queries, keys, values, gates and two rates of each token, and 3 earlier tokens of the convolution.
  const ModuleStep linear =
      find_module("qwen3_next_80b_a3b", {.batch = 4, .new_tokens = 8192, .context = 8192}, "linear attention");
  const double state = 4 * 32 * 128 * 128 * 4.0, earlier = 4 * 3 * 8192 * 2.0;
  EXPECT_EQ(linear.cache_bytes, earlier);
  const double tokens = 4 * 8192 * (8192 + 4096 + 4096 + 2 * 32) * 2.0;  // Inputs, gates, results, rates in bf16
  EXPECT_GT(linear.bytes, tokens + state + earlier);
  EXPECT_LT(linear.bytes, 1.01 * (tokens + state + earlier));
  // The chunks' products take less time than a token after the other, whose work is not in products.
  const double one_by_one = 4 * 8192 * 7 * 32 * 128 * 128.0 / 67e12;
  EXPECT_LT(linear.bound_s, one_by_one / 2);
}

TEST(ModelStep, AddsTheTimeOfImages) {
  ModelRequest request{.counts = {.context = 2048}, .tensor_parallel = 4};
  const model::ModelConfig config = *model::find_config("gemma_3_27b");
  const auto text = predict_model(config, request, *find_machine("h200"));
  request.images = ImageRequest{.images = 6};
  const auto images = predict_model(config, request, *find_machine("h200"));
  ASSERT_TRUE(text && images) << images.error().message;
  EXPECT_EQ(images->images->images_per_chip, 2) << "four chips divide six images";
  EXPECT_EQ(images->images->image.tokens, 256);
  EXPECT_EQ(images->prefill.bound_s, text->prefill.bound_s);
  EXPECT_EQ(images->first_token_bound_s(), text->prefill.bound_s + images->images->step.bound_s);
  // Products of two images at the peak of 989 TFLOP/s are the most of the bound.
  const double products = 2 * 27 * (4096 * (8.0 * 1152 * 1152 + 4.0 * 1152 * 4304) + 4.0 * 4096 * 4096 * 1152);
  EXPECT_GT(images->images->step.bound_s, products / 989.5e12);
  EXPECT_LT(images->images->step.bound_s, 2 * products / 989.5e12);
  request.images = ImageRequest{.images = 9};
  EXPECT_EQ(predict_model(config, request, *find_machine("h200")).error().to_string(),
            "expected --context of at least 2304 tokens for --images 9 with 256 tokens each, found 2048\n"
            "  hint: the tokens of images are part of the prompt\n");
}

TEST(ModelStep, KeepsStatesInTheMemoryOfAChip) {
  const auto answer = predict_model(*model::find_config("nemotron_3_nano_30b_a3b"),
                                    {.counts = {.context = 8192, .batch = 8}}, *find_machine("h200"));
  ASSERT_TRUE(answer) << answer.error().message;
  // 6 layers keep 1 024 bytes per token, 23 a state (model_test.cc).
  EXPECT_EQ(answer->decode.cache_bytes, 8 * (6144.0 * 8192 + 49082368));
  EXPECT_EQ(answer->decode.parameter_bytes, 2 * 31577940288.0);
  const auto mamba = predict_model(*model::find_config("codestral_mamba_7b"), {.counts = {.context = 8192, .batch = 8}},
                                   *find_machine("h200"));
  ASSERT_TRUE(mamba) << mamba.error().message;
  EXPECT_EQ(mamba->max_context, std::nullopt) << "a state is as large for every context";
  // llmfit #805: some 160 tokens/s of Qwen3 30B A3B on a card of 936 GB/s need 4 bits per weight or so; the bound on an
  // H200 of 4.8 TB/s in bf16 is more than the 160 x 4.8 / 0.936 x 4 / 16 that it scales to.
  const auto qwen =
      predict_model(*model::find_config("qwen3_30b_a3b"), {.counts = {.context = 512}}, *find_machine("h200"));
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_GT(1 / qwen->decode.bound_s, 160 * 4.8 / 0.936 * 4 / 16);
}

}  // namespace
}  // namespace ridge
