// Times that users reported as wrong in other calculators, each with the report and the right number. A measured time
// must not be below the bound, and the bound must not be far below what the report calls right.
#include <gtest/gtest.h>

#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

ModelOnMachine predict(const std::string& config, const ModelRequest& request, const std::string& machine) {
  const auto answer = predict_model(*model::find_config(config), request, *find_machine(machine));
  EXPECT_TRUE(answer) << config << (answer ? "" : answer.error().message);
  return answer ? *answer : ModelOnMachine{};
}

TEST(TimeReports, ExpertsOfAPromptAreThoseThatItsTokensChoose) {
  // inference-sim #965: a prompt of Mixtral 8x22B took 137 times as long in one of two runs. Its products have two
  // FLOPs for each active parameter and token, and a prompt that is twice as long takes about twice the time.
  ModelRequest request{.counts = {.context = 2048}, .phase = ModelPhase::prefill, .tensor_parallel = 8};
  const ModelOnMachine shorter = predict("mixtral_8x22b", request, "h100");
  EXPECT_NEAR(8 * shorter.prefill.flops / (2.0 * 2048 * 39152031744), 1.0, 0.05);
  request.counts.context = 4096;
  EXPECT_NEAR(predict("mixtral_8x22b", request, "h100").prefill.bound_s / shorter.prefill.bound_s, 2.0, 0.1);
}

TEST(TimeReports, TokensPerSecondDependOnActiveParameters) {
  // llmfit #474: 77.6 tokens/s of Qwen3.5-35B-A3B with 2 to 3 bits per weight at 512 GB/s, not 34.7. With 4 bits, the
  // bound at that rate is above both.
  ModelRequest request{.counts = {.weight_dtype = DType::int4, .context = 512}};
  Machine machine = *find_machine("h200");
  machine.memory.front().bandwidth->value = 512e9;
  const auto answer = predict_model(*model::find_config("qwen3_5_35b_a3b_text"), request, machine);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_GT(1 / answer->decode.bound_s, 77.6);
  EXPECT_LT(1 / answer->decode.bound_s, 10 * 77.6) << "all active parameters are read";
}

TEST(TimeReports, MeasuredTimesAreNotBelowTheBound) {
  // AIC #1148: Qwen3-8B on an H200 with vLLM, 64 requests of 9 000 tokens: 308.8 ms per token, not 248.8. Prompts that
  // join are most of it: decoding alone takes at least 85 GB of keys and values and 16 GB of weights at 4.8 TB/s.
  const ModelOnMachine qwen = predict("qwen3_8b", {.counts = {.context = 9000, .batch = 64}}, "h200");
  EXPECT_NEAR(qwen.decode.bound_s, (64 * 147456.0 * 9000 + 2 * 7.57e9) / 4.8e12, 0.0005);
  EXPECT_LT(qwen.decode.bound_s, 0.3088);
  // aisimulate #277: gpt-oss-120b on 2 B200, 4 prompts of 1 024 tokens: the first token after 48.86 ms, of which
  // kernels are 8.28. One prompt is bound to less, and no engine was measured on a B200.
  const ModelRequest asked{.counts = {.context = 1024, .batch = 4}, .tensor_parallel = 2};
  const ModelOnMachine oss = predict("gpt_oss_120b", asked, "b200");
  EXPECT_LT(oss.first_token_bound_s(), 0.00828);
  EXPECT_GT(oss.first_token_bound_s(), 0.00828 / 4);
  ModelRequest served = asked;
  served.serving = ServingRequest{.output_tokens = 1024, .engine = ServingEngine::trtllm};
  EXPECT_EQ(predict_model(*model::find_config("gpt_oss_120b"), served, *find_machine("b200")).error().message,
            "no engine was measured on b200; served times are known on h100 and h200");
  // sglang #39042: the first token of Qwen3.6-27B, whose sizes are those of Qwen3.5-27B, after 100.1 ms on an H200.
  const ModelOnMachine dense = predict("qwen3_5_27b_text", {.counts = {.context = 1024}}, "h200");
  EXPECT_LT(dense.first_token_bound_s(), 0.1001);
  EXPECT_GT(dense.first_token_bound_s(), 0.1001 / 2);
}

}  // namespace
}  // namespace ridge
