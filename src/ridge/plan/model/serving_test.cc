// Tests the served times: each term with round numbers, and the work that they are computed from.
#include "ridge/plan/model/serving.h"

#include <gtest/gtest.h>

#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

constexpr ServingConstants round_constants{.layer_s = 1,
                                           .expert_layer_s = 10,
                                           .sequence_s = 0.5,
                                           .prefill_factor = 2,
                                           .expert_prefill_factor = 3,
                                           .queued_share = 0.25,
                                           .first_token_steps = 4,
                                           .start_s = 1000,
                                           .vllm_start_s = 2000,
                                           .memory_share = 0.5,
                                           .token_low = 0.5,
                                           .token_high = 2,
                                           .first_token_low = 0.25,
                                           .first_token_high = 4};
constexpr ServingWork round_work{.requests = 8,
                                 .batch = 8,
                                 .output_tokens = 7,
                                 .layers = 3,
                                 .expert_layers = 2,
                                 .decode_s = 100,
                                 .prompt_s = 20,
                                 .prompt_experts_s = 30,
                                 .joining_s = 5,
                                 .joining_experts_s = 6,
                                 .engine = ServingEngine::trtllm};

TEST(ServingTest, AddsHostPrefillAndQueueToTheBounds) {
  const ServedTimes times = predict_serving(round_work, round_constants);
  // A step is 100 + 3 + 20 + 4; each of 7 other requests begins once in 7 steps, 2 * 5 + 3 * 6 each.
  EXPECT_DOUBLE_EQ(times.token_s.expected, 127 + 28);
  EXPECT_DOUBLE_EQ(times.token_s.high, 310);
  EXPECT_DOUBLE_EQ(times.token_s.low, 100) << "half of 155 would be below the bound of the step";
  // Start, prompt, a quarter of 7 other prompts, 4 steps
  EXPECT_DOUBLE_EQ(times.first_token_s.expected, 1000 + 130 + 49 + 620);
  EXPECT_DOUBLE_EQ(times.first_token_s.low, 1799.0 / 4);
  EXPECT_DOUBLE_EQ(times.tokens_per_s, 8 * 7 / (1799 + 7 * 155.0));
}

TEST(ServingTest, StartDependsOnTheEngine) {
  ServingWork work = round_work;
  work.engine = ServingEngine::vllm;
  EXPECT_DOUBLE_EQ(predict_serving(work, round_constants).first_token_s.expected, 2799);
  work.engine = ServingEngine::sglang;
  EXPECT_DOUBLE_EQ(predict_serving(work, round_constants).first_token_s.expected, 1799);
}

TEST(ServingTest, RequestsThatTheMemoryDoesNotHoldWait) {
  ServingWork work = round_work;
  work.requests = 12;
  const ServedTimes times = predict_serving(work, round_constants);
  EXPECT_DOUBLE_EQ(times.token_s.expected, 155);
  EXPECT_DOUBLE_EQ(times.first_token_s.expected, 1799 + 0.5 * 7 * 155);
  // Little's law: 12 requests in flight, of which the waiting ones delay the first token
  EXPECT_DOUBLE_EQ(times.tokens_per_s, 12 * 7 / (1799 + 1.5 * 7 * 155));
}

TEST(ServingTest, OneRequestHasNoOthersToWaitFor) {
  ServingWork work = round_work;
  work.requests = work.batch = 1;
  const ServedTimes times = predict_serving(work, round_constants);
  EXPECT_DOUBLE_EQ(times.token_s.expected, 123.5);
  EXPECT_DOUBLE_EQ(times.first_token_s.expected, 1000 + 130 + 4 * 123.5);
}

ModelRequest make_request(std::int64_t requests, std::int64_t prompt, std::int64_t output, std::int64_t chips) {
  ModelRequest out{.tensor_parallel = chips, .serving = ServingRequest{.output_tokens = output}};
  out.counts.batch = requests;
  out.counts.context = prompt;
  return out;
}

TEST(ServingTest, WorkIsThatOfTheSteps) {
  const auto config = model::find_config("mixtral_8x7b");
  const auto machine = find_machine("h200");
  const ModelRequest request = make_request(7, 65, 301, 2);
  const auto work = count_serving_work(*config, request, *machine);
  ASSERT_TRUE(work) << work.error().to_string();
  EXPECT_EQ(work->batch, 7);
  EXPECT_EQ(work->layers, 32);
  EXPECT_EQ(work->expert_layers, 32);
  ModelRequest halfway = make_request(7, 216, 1, 2);
  halfway.serving = {};
  const auto decode = predict_model(*config, halfway, *machine);
  EXPECT_DOUBLE_EQ(work->decode_s, decode->decode.bound_s - decode->decode.network_s);
  ModelRequest prompt = make_request(1, 65, 1, 2);
  prompt.serving = {};
  const auto prefill = predict_model(*config, prompt, *machine);
  EXPECT_NEAR(work->prompt_s + work->prompt_experts_s, prefill->prefill.bound_s, 1e-12);
  EXPECT_LT(work->joining_experts_s, 0.5 * work->prompt_experts_s) << "a large step reads the experts anyway";
  EXPECT_GT(work->joining_s, 0);
}

TEST(ServingTest, DenseModelsHaveNoExperts) {
  const auto work =
      count_serving_work(*model::find_config("llama_3_8b"), make_request(3, 100, 50, 1), *find_machine("h100"));
  ASSERT_TRUE(work) << work.error().to_string();
  EXPECT_EQ(work->expert_layers, 0);
  EXPECT_EQ(work->prompt_experts_s, 0);
  EXPECT_EQ(work->joining_experts_s, 0);
}

TEST(ServingTest, BatchIsWhatTheMemoryHolds) {
  const auto config = model::find_config("llama_3_70b");
  const auto machine = find_machine("h200");
  ModelRequest full = make_request(1, 9216, 1, 2);
  full.serving = {};
  const std::int64_t held = *predict_model(*config, full, *machine)->max_batch;
  const auto work = count_serving_work(*config, make_request(1000, 8192, 1024, 2), *machine);
  ASSERT_TRUE(work) << work.error().to_string();
  EXPECT_EQ(work->requests, 1000);
  EXPECT_EQ(work->batch, held * 4 / 5);
  const auto none = count_serving_work(*config, make_request(1, 8192, 1024, 1), *find_machine("h100"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "the memory of 1 x h100 holds no request of 9216 tokens");
}

TEST(ServingTest, OnlyMeasuredMachinesAreAnswered) {
  const auto answer =
      predict_served_model(*model::find_config("llama_3_8b"), make_request(3, 100, 50, 1), *find_machine("b200"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "no engine was measured on b200; served times are known on h100 and h200");
}

TEST(ServingTest, GivenConstantsReplaceTheBuiltInOnAnyMachine) {
  const auto config = model::find_config("llama_3_8b");
  ModelRequest request = make_request(3, 100, 50, 1);
  request.serving->constants = round_constants;
  request.serving->source = "mine.csv";
  const auto served = predict_served_model(*config, request, *find_machine("b200"));
  ASSERT_TRUE(served) << served.error().to_string();
  EXPECT_EQ(served->source, "mine.csv");
  // 32 layers of 1 s and 3 sequences of 0.5 s are the most of a step; two joining prompts per 50 tokens are below 1 ms.
  EXPECT_NEAR(served->token_s.expected, 33.5, 0.01);
  // Half of 33.5 s is above the bound of the step.
  EXPECT_NEAR(served->token_s.low, 33.5 / 2, 0.01);
}

TEST(ServingTest, ConstantsAreInTheirRanges) {
  const auto error_with = [](const std::string& name, const std::string& value) {
    std::string csv(serving_csv());
    const std::size_t line = csv.find("\n" + name + ",") + 1, cell = csv.find(',', csv.find(',', line) + 1) + 1;
    csv.replace(cell, csv.find(',', cell) - cell, value);
    return parse_serving_constants(csv, "x.csv").error().message;
  };
  EXPECT_EQ(error_with("layer", "-1"), "'x.csv': expected layer from 0 to 1e6, found -1");
  EXPECT_EQ(error_with("start", "nan"), "'x.csv': expected start from 0 to 1e6, found nan");
  EXPECT_EQ(error_with("memory", "1.5"), "'x.csv': expected memory above 0 and up to 1, found 1.5");
  EXPECT_EQ(error_with("token_low", "2"), "'x.csv': expected token_low above 0 and up to token_high, found 2 and 1.27");
}

TEST(ServingTest, ConstantsAreReadCompletelyOrRefused) {
  const std::string csv(serving_csv());
  ASSERT_TRUE(parse_serving_constants(csv, "x.csv"));
  EXPECT_EQ(parse_serving_constants(csv + "extra,s,1,fitted,none\n", "x.csv").error().message,
            "'x.csv': unknown name extra");
  const std::size_t line = csv.find("\nqueued,");
  const std::string cut = csv.substr(0, line) + csv.substr(csv.find('\n', line + 1));
  EXPECT_EQ(parse_serving_constants(cut, "x.csv").error().message, "'x.csv' lacks queued");
}

}  // namespace
}  // namespace ridge
