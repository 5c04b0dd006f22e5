// Tests speculative decoding: the published number of tokens per step, and times that are sums of steps.
#include "ridge/plan/model/speculation.h"

#include <gtest/gtest.h>

#include "ridge/plan/model/layout_predictor.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

// Leviathan et al. 2023, equation 1: (1 - A^(K + 1)) / (1 - A); 0.8 and 5 draft tokens give 3.69.
TEST(Speculation, CountsAcceptedTokens) {
  EXPECT_DOUBLE_EQ(count_accepted_tokens(0, 5), 1);
  EXPECT_DOUBLE_EQ(count_accepted_tokens(1, 5), 6);
  EXPECT_DOUBLE_EQ(count_accepted_tokens(0.5, 1), 1.5);
  EXPECT_NEAR(count_accepted_tokens(0.8, 5), (1 - 0.262144) / 0.2, 1e-12);
}

ModelRequest make_decoding_request(std::int64_t batch, const SpeculationRequest& speculation) {
  ModelRequest request{.tensor_parallel = 2, .speculation = speculation};
  request.counts.context = 4096;
  request.counts.batch = batch;
  return request;
}

TEST(Speculation, AddsTheStepsOfDraftAndVerification) {
  const model::ModelConfig config = *model::find_config("llama_3_70b"), draft = *model::find_config("llama_3_8b");
  const Machine machine = *find_machine("h200");
  const auto answer = predict_model(config, make_decoding_request(4, {3, 0.6, draft}), machine);
  ASSERT_TRUE(answer) << answer.error().message;
  const Speculation& s = *answer->speculation;
  EXPECT_DOUBLE_EQ(s.step.tokens, 1 + 0.6 + 0.36 + 0.216);
  EXPECT_DOUBLE_EQ(s.plain_s, answer->decode.bound_s);
  ModelRequest middle = make_decoding_request(4, {});
  middle.speculation = {};
  middle.counts.context = 4097;  // The second of three steps
  EXPECT_DOUBLE_EQ(s.step.draft_s, 3 * predict_model(draft, middle, machine)->decode.bound_s);
  EXPECT_DOUBLE_EQ(s.step.token_s(), (s.step.draft_s + s.step.verify_s) / s.step.tokens);
  // Weights and cache are read once for four tokens; what grows is the network and the computation.
  EXPECT_GT(s.step.verify_s, s.plain_s);
  EXPECT_LT(s.step.verify_s, 1.2 * s.plain_s);
  // Two bytes of half the parameters; both chips have all 65 norms.
  EXPECT_DOUBLE_EQ(s.draft_weight_bytes, 2 * (8030261248.0 + 65 * 4096) / 2);
  EXPECT_DOUBLE_EQ(answer->memory_bytes(), answer->decode.parameter_bytes + answer->decode.cache_bytes +
                                               answer->decode.activation_bytes + s.draft_weight_bytes +
                                               s.draft_cache_bytes);
  EXPECT_FALSE(answer->max_batch);
}

TEST(Speculation, PassesStages) {
  const model::ModelConfig config = *model::find_config("llama_3_70b"), draft = *model::find_config("llama_3_8b");
  const Machine machine = *find_machine("h200");
  ModelRequest request = make_decoding_request(4, {3, 0.6, draft});
  request.pipeline_parallel = 2;
  const auto answer = predict_model(config, request, machine);
  ASSERT_TRUE(answer) << answer.error().message;
  const Speculation& s = *answer->speculation;
  EXPECT_DOUBLE_EQ(s.plain_s, answer->decode.bound_s);
  EXPECT_EQ(answer->decode.stages.size(), 2u);
  request.speculation = {};
  request.counts.context = 4097;
  EXPECT_DOUBLE_EQ(s.step.draft_s, 3 * predict_model(draft, request, machine)->decode.bound_s);
  // Two micro-batches of two sequences; each verifies four tokens and sends 2 * 4 * 8192 elements of 2 bytes.
  LayoutPredictor verification(config, {.new_tokens = 4, .context = 4099, .has_all_logits = true}, machine);
  const auto step = verification.predict({.tensor = 2, .pipeline = 2}, 4, ModelPhase::decode);
  ASSERT_TRUE(step) << step.error().message;
  EXPECT_DOUBLE_EQ(s.step.verify_s, step->bound_s);
  EXPECT_EQ(step->micro_batches, 2);
  EXPECT_EQ(step->modules.back().bytes_sent, 2 * 4 * 8192 * 2);
}

TEST(Speculation, CountsTheScalesOfADraft) {
  const auto answer = predict_model(*model::find_config("llama_3_70b"),
                                    make_decoding_request(1, {1, 0.5,
                                                              *model::parse_config(R"({"model_type": "llama",
 "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 2, "num_attention_heads": 32,
 "num_key_value_heads": 8, "vocab_size": 128256, "quantization_config": {"quant_method": "gptq", "bits": 4,
 "group_size": 128}})",
                                                                                   "draft.json", "draft")}),
                                    *find_machine("h200"));
  ASSERT_TRUE(answer) << answer.error().message;
  // 4 bits a weight, scales and zero points of 16 and 4 bits for 128 of them, 4 bytes for each input of a matrix;
  // embedding, head and norms are bf16. Both chips have all norms.
  const double matrices = 2 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336) / 2;
  EXPECT_DOUBLE_EQ(
      answer->speculation->draft_weight_bytes,
      matrices * (0.5 + 2.5 / 128) + 2 * 4.0 * (6 * 4096 + 14336) / 2 + 2.0 * 2 * 128256 * 4096 / 2 + 2.0 * 5 * 4096);
}

TEST(Speculation, FindsTheFastestNumberOfDraftTokens) {
  const model::ModelConfig config = *model::find_config("llama_3_8b");
  const Machine machine = *find_machine("h100");
  ModelRequest request = make_decoding_request(1, {1, 1, {}});
  const auto all_accepted = predict_model(config, request, machine);
  ASSERT_TRUE(all_accepted) << all_accepted.error().message;
  EXPECT_EQ(all_accepted->speculation->best.draft_tokens, 16);
  request.speculation->acceptance = 0;
  EXPECT_EQ(predict_model(config, request, machine)->speculation->best.draft_tokens, 0);
  request.speculation = SpeculationRequest{2, 0.5, config};  // A draft as slow as the model gains nothing
  EXPECT_EQ(predict_model(config, request, machine)->speculation->best.draft_tokens, 0);
}

TEST(Speculation, ReportsInvalidRequests) {
  const Machine machine = *find_machine("h100");
  const auto fail = [&](const std::string& config, SpeculationRequest speculation, std::int64_t context) {
    ModelRequest request = make_decoding_request(1, speculation);
    request.counts.context = context;
    const auto answer = predict_model(*model::find_config(config), request, machine);
    return answer ? "none" : answer.error().message;
  };
  EXPECT_EQ(fail("llama_3_8b", {65, 0.5, {}}, 9), "expected --speculate from 1 to 64, found 65");
  EXPECT_EQ(fail("llama_3_8b", {1, 1.5, {}}, 9), "expected --acceptance from 0 to 1, found 1.5");
  EXPECT_EQ(
      fail("gpt_3_175b", {4, 0.5, {}}, 2046),
      "gpt_3_175b: expected --context and --speculate of at most 2048 together, the positions that the model has, "
      "found 2050");
  ModelRequest other = make_decoding_request(1, {1, 0.5, *model::find_config("qwen2_5_0_5b")});
  EXPECT_EQ(predict_model(*model::find_config("llama_3_8b"), other, machine)->speculation->notes,
            std::vector<std::string>{"llama_3_8b has 128256 tokens and qwen2_5_0_5b has 151936: both must use the same "
                                     "tokenizer"});
}

}  // namespace
}  // namespace ridge
