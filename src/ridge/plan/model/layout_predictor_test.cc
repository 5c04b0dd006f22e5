// Tests steps on several chips with a tiny model, on machines with round numbers, against times and bytes that are
// computed by hand.
#include "ridge/plan/model/layout_predictor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ridge/model/count.h"
#include "ridge/plan/model/layouts.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

model::ModelConfig make_tiny_model(std::int64_t layers, bool is_tied = false) {
  return *model::parse_config(
      fmt::format(R"({{"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": {},
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 10, "tie_word_embeddings": {}}})",
                  layers, is_tied),
      "tiny.json", "tiny");
}

// Returns a machine on which only launches, the matrix unit and links take time. A link sends 16 B/s after 0.5 s; two
// chips are a host, between which 4 B/s are sent.
Machine make_round_machine(double matrix_flops_per_s, double launch_s, const std::string& further_link = "scaleout") {
  const auto number = [](double value, const char* unit) {
    return fmt::format("{{ value = {:e}, unit = \"{}\", source = \"made up\", read = 2026-11-30 }}\n", value, unit);
  };
  std::string text = "name = \"round\"\ntitle = \"Round\"\n[matrix]\nbf16 = " + number(matrix_flops_per_s, "FLOP/s") +
                     "[vector]\nf32 = " + number(1e25, "FLOP/s") + "[memory.hbm]\nbandwidth = " + number(1e25, "B/s") +
                     "capacity = " + number(1e9, "B") + "[link.inner]\nbandwidth = " + number(16, "B/s") +
                     "latency = " + number(0.5, "s") + "topology = \"switch\"\n";
  if (!further_link.empty())
    text += fmt::format("[link.{}]\nbandwidth = {}topology = \"switch\"\n", further_link, number(4, "B/s"));
  text += "[numbers]\nhost_chips = " + number(2, "1");
  if (launch_s > 0) text += "launch_s = " + number(launch_s, "s");
  const auto machine = parse_machine(text, "round.toml");
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().to_string());
  return *machine;
}

// With a launch of 1 s, embedding and head take 1 s and a layer 4 s: query key value, attention, attention output,
// feed-forward.
TEST(LayoutPredictorTest, DecodingTakesTheLatencyOrTheSlowestStage) {
  const model::ModelConfig config = make_tiny_model(3);
  const Machine machine = make_round_machine(1e25, 1);
  LayoutPredictor predictor(config, {.context = 4}, machine);
  const auto one = predictor.predict({}, 4, ModelPhase::decode);
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_DOUBLE_EQ(one->bound_s, 1 + 3 * 4 + 1);
  const auto two = predictor.predict({.pipeline = 2}, 4, ModelPhase::decode);
  ASSERT_TRUE(two) << two.error().to_string();
  ASSERT_EQ(two->stages.size(), 2u);
  EXPECT_EQ(two->micro_batches, 2);
  EXPECT_EQ(two->micro_batch, 2);
  EXPECT_DOUBLE_EQ(two->stages[0].bound_s, 1 + 2 * 4);
  EXPECT_DOUBLE_EQ(two->stages[1].bound_s, 4 + 1);
  // Two sequences of 8 elements of 2 bytes at 16 B/s
  EXPECT_DOUBLE_EQ(two->network_s, 0.5 + 2);
  EXPECT_DOUBLE_EQ(two->bytes_sent, 32);
  EXPECT_DOUBLE_EQ(two->bound_s, 2 * 9) << "the first stage works all the time: 2 micro-batches of 9 s";
  EXPECT_DOUBLE_EQ(two->others_s, 18 - (9 + 5 + 2.5));
  const auto alone = predictor.predict({.pipeline = 2}, 1, ModelPhase::decode);
  EXPECT_EQ(alone->micro_batches, 1);
  EXPECT_DOUBLE_EQ(alone->bound_s, 9 + 5 + 0.5 + 1) << "one sequence passes one stage after the other";
  EXPECT_EQ(alone->others_s, 0);
}

// One sequence passes both stages in 15.5 s; two take 18 s, which is too slow for a token in 16 s.
TEST(LayoutPredictorTest, FewerSequencesThanStagesReachAHigherRate) {
  LayoutRequest request{.chips = {2}, .rate = 1.0 / 16};
  request.counts.context = 4;
  const auto ranking = rank_layouts(make_tiny_model(3), request, make_round_machine(1e25, 1));
  ASSERT_TRUE(ranking) << ranking.error().to_string();
  const auto stages = std::find_if(ranking->layouts.begin(), ranking->layouts.end(),
                                   [](const LayoutTimes& x) { return x.layout.pipeline == 2; });
  ASSERT_NE(stages, ranking->layouts.end());
  EXPECT_EQ(stages->batch, 1);
  EXPECT_DOUBLE_EQ(stages->token_s, 15.5);
}

// Sequences that the stages do not divide: 5 in 4 stages are micro-batches of 2, 2 and 1.
TEST(LayoutPredictorTest, MicroBatchesHoldAllSequences) {
  const model::ModelConfig config = make_tiny_model(4);
  const Machine machine = make_round_machine(1e25, 1);
  LayoutPredictor predictor(config, {.context = 4}, machine);
  const auto step = predictor.predict({.pipeline = 4}, 5, ModelPhase::decode);
  EXPECT_EQ(step->micro_batch, 2);
  EXPECT_EQ(step->micro_batches, 3);
  EXPECT_EQ(divide_layers(80, 3), (std::vector<std::int64_t>{27, 27, 26}));
  EXPECT_EQ(divide_layers(4, 4), (std::vector<std::int64_t>{1, 1, 1, 1}));
}

// A layer multiplies 480 parameters (192 of attention, 288 of feed-forward) with 2 tokens, and 4 heads of 2 elements
// with 3 pairs of tokens, twice: 2*480*2 + 2*2*4*2*3 = 2016 FLOP, 1 s. The head is 2*8*10 = 160 FLOP.
TEST(LayoutPredictorTest, PrefillFillsAndDrainsTheStages) {
  const model::ModelConfig config = make_tiny_model(2);
  const Machine machine = make_round_machine(2016, 0);
  LayoutPredictor predictor(config, {.context = 2}, machine);
  const double head = 160.0 / 2016, send = 0.5 + 1.0 * 2 * 8 * 2 / 16;
  const auto one = predictor.predict({}, 4, ModelPhase::prefill);
  EXPECT_NEAR(one->bound_s, 4 * (2 + head), 1e-9);
  const auto two = predictor.predict({.pipeline = 2}, 4, ModelPhase::prefill);
  ASSERT_TRUE(two) << two.error().to_string();
  // Sends of 2.5 s per sequence are slower than the stages, so that they decide.
  EXPECT_EQ(two->micro_batch, 1);
  EXPECT_NEAR(two->bound_s, 1 + 1 + head + send + 3 * send, 1e-9);
  Machine fast = machine;
  fast.links[0].bandwidth.value = 1e25;
  fast.links[0].latency = {};
  LayoutPredictor without_sends(config, {.context = 2}, fast);
  const auto filled = without_sends.predict({.pipeline = 2}, 4, ModelPhase::prefill);
  EXPECT_EQ(filled->micro_batches, 4);
  EXPECT_NEAR(filled->bound_s, 1 + 1 + head + 3 * (1 + head), 1e-9)
      << "1 of 5 parts of the time is idle, but for the head: (P - 1)/(M + P - 1)";
  EXPECT_NEAR(filled->slowest_stage_s, 1 + head, 1e-9);
}

// Launches of 1 s make one large micro-batch faster than four small ones.
TEST(LayoutPredictorTest, PrefillTakesTheFastestMicroBatches) {
  const model::ModelConfig config = make_tiny_model(3);
  Machine machine = make_round_machine(1e25, 1);
  machine.links[0].bandwidth.value = 1e25;
  LayoutPredictor predictor(config, {.context = 4}, machine);
  const auto step = predictor.predict({.pipeline = 2}, 3, ModelPhase::prefill);
  EXPECT_EQ(step->micro_batch, 3);
  EXPECT_EQ(step->micro_batches, 1);
  EXPECT_DOUBLE_EQ(step->bound_s, 9 + 5 + 0.5);
}

// A layer has 496 parameters with its two norms, embedding and head 80 each, the final norm 8. A token has 8 elements
// of keys and values in a layer's cache.
TEST(LayoutPredictorTest, MemoryIsThatOfTheFullestStage) {
  const Machine machine = make_round_machine(1e25, 1);
  for (const bool is_tied : {false, true}) {
    const model::ModelConfig config = make_tiny_model(3, is_tied);
    LayoutPredictor predictor(config, {.context = 4}, machine);
    const auto step = predictor.predict({.pipeline = 2}, 4, ModelPhase::decode);
    ASSERT_TRUE(step) << step.error().to_string();
    EXPECT_EQ(step->stages[0].parameter_bytes, 2 * (80 + 2 * 496));
    EXPECT_EQ(step->stages[1].parameter_bytes, 2 * (496 + 8 + 80)) << "the last stage has its own copy of a tied head";
    EXPECT_EQ(step->stages[0].cache_bytes, 2 * 4 * 4 * 8 * 2) << "of all 4 sequences";
    EXPECT_EQ(step->stages[1].cache_bytes, 1 * 4 * 4 * 8 * 2);
    EXPECT_EQ(step->parameter_bytes, step->stages[0].parameter_bytes);
    EXPECT_EQ(step->cache_bytes, step->stages[0].cache_bytes);
    const auto one = predictor.predict({}, 4, ModelPhase::decode);
    EXPECT_EQ(one->parameter_bytes, 2 * (80 + 3 * 496 + 8 + (is_tied ? 0 : 80)));
  }
}

// Each matrix has a scale of 4 bytes: 4 of attention and 3 of each of 4 experts, 64 bytes per layer.
TEST(LayoutPredictorTest, StagesDivideTheScales) {
  const auto config = model::parse_config(
      R"({"model_type": "qwen3_moe", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 5, "vocab_size": 10,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "num_experts": 4, "num_experts_per_tok": 2,
 "moe_intermediate_size": 6, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})",
      "experts.json", "experts");
  ASSERT_TRUE(config) << config.error().to_string();
  const Machine machine = *find_machine("h200");
  LayoutPredictor predictor(*config, {.context = 64}, machine);
  const auto scales = [&](const model::ChipLayout& layout) {
    const auto step = predictor.predict(layout, 8, ModelPhase::decode);
    EXPECT_TRUE(step) << step.error().to_string();
    return step ? step->stages : std::vector<StageStep>(2);
  };
  EXPECT_EQ(scales({})[0].scale_bytes, 5 * 64);
  EXPECT_EQ(scales({.tensor = 2, .pipeline = 2})[0].scale_bytes, 3 * 64 / 2);
  EXPECT_EQ(scales({.tensor = 2, .pipeline = 2})[1].scale_bytes, 2 * 64 / 2);
  EXPECT_EQ(scales({.expert = 2, .data = 4})[0].scale_bytes, 5 * (16 + 48 / 2)) << "ranks divide only experts";
}

// Programs and counts hold on every machine: several machines in one answer count each chip once.
TEST(LayoutPredictorTest, MachinesShareCounts) {
  const model::ModelConfig config = *model::find_config("qwen3_30b_a3b");
  const ModelRequest request{.counts = {.context = 512, .batch = 4}, .tensor_parallel = 2};
  CountedChips shared;
  for (const char* name : {"h200", "mi300x", "tpu_v5p"}) {
    const Machine machine = *find_machine(name);
    const auto one = predict_model(config, request, machine),
               with_others = predict_model(config, request, machine, &shared);
    ASSERT_TRUE(one && with_others) << name;
    EXPECT_EQ(shared.size(), 2) << "decoding and prefill, on " << name;
    EXPECT_EQ(with_others->decode.bound_s, one->decode.bound_s) << name;
    EXPECT_EQ(with_others->prefill.bound_s, one->prefill.bound_s) << name;
    EXPECT_EQ(with_others->memory_bytes(), one->memory_bytes()) << name;
  }
}

TEST(LayoutPredictorTest, SendsBetweenHostsTakeTheOuterLink) {
  EXPECT_EQ(count_sends_beyond_host(4, 2, 4), 1) << "chips 2, 3 to 4, 5";
  EXPECT_EQ(count_sends_beyond_host(3, 3, 4), 2) << "chips 1 to 4, and 5 to 8";
  EXPECT_EQ(count_sends_beyond_host(4, 2, 8), 0);
  EXPECT_EQ(count_sends_beyond_host(4, 8, 8), 3);
  EXPECT_EQ(count_sends_beyond_host(64, 8, 0), 0) << "no limit";
  const model::ModelConfig config = make_tiny_model(3);
  const Machine machine = make_round_machine(1e25, 1);
  LayoutPredictor predictor(config, {.context = 4}, machine);
  const auto step = predictor.predict({.pipeline = 3}, 1, ModelPhase::decode);
  ASSERT_TRUE(step) << step.error().to_string();
  // 16 bytes to the other chip of the host, and at 4 B/s after a hop and a step of 0.5 s to another host
  EXPECT_DOUBLE_EQ(step->network_s, (0.5 + 1) + (0.5 + 0.5 + 4));
  const Machine lonely = make_round_machine(1e25, 1, "");
  LayoutPredictor inside(config, {.context = 4}, lonely);
  EXPECT_TRUE(inside.predict({.pipeline = 2}, 1, ModelPhase::decode));
  const auto beyond = inside.predict({.pipeline = 3}, 1, ModelPhase::decode);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().to_string(),
            "expected stages of at most 2 chips in all, which inner joins, found 3; no link beyond is on record\n"
            "  hint: use at most 2 chips, or a machine file with a further [link.NAME]\n");
}

TEST(LayoutPredictorTest, RefusesStagesWithoutLayers) {
  const model::ModelConfig config = make_tiny_model(3);
  const Machine machine = make_round_machine(1e25, 1);
  LayoutPredictor predictor(config, {.context = 4}, machine);
  EXPECT_EQ(predictor.predict({.pipeline = 4}, 1, ModelPhase::decode).error().message,
            "tiny: expected --pp of at most 3, the layers of the model, found 4");
  EXPECT_EQ(predictor.predict({.pipeline = 0}, 1, ModelPhase::decode).error().message,
            "expected --pp from 1 to 65536, found 0");
}

// Kernels are planned and predicted for the stages, too.
TEST(LayoutPredictorTest, PredictedTimesFollowTheSameRule) {
  const model::ModelConfig config = *model::find_config("llama_3_8b");
  ModelRequest request{.tensor_parallel = 1, .pipeline_parallel = 4, .plan = PlanRequest{.count_bytes = false}};
  request.counts.context = 1024;
  request.counts.batch = 16;
  const auto answer = predict_model(config, request, *find_machine("h200"));
  ASSERT_TRUE(answer) << answer.error().to_string();
  ASSERT_TRUE(answer->decode.predicted_s) << answer->decode.remark;
  double slowest = 0;
  for (const StageStep& stage : answer->decode.stages) slowest = std::max(slowest, stage.predicted_s->expected);
  EXPECT_GE(answer->decode.predicted_s->expected, 4 * slowest);
  EXPECT_GT(answer->decode.predicted_s->expected, answer->decode.bound_s);
  EXPECT_EQ(answer->hosts, 1);
  EXPECT_EQ(answer->layout.chips(), 4);
}

// The batch and the context that every stage holds.
TEST(LayoutPredictorTest, LimitsAreThoseOfTheFullestStage) {
  const model::ModelConfig config = make_tiny_model(3);
  Machine machine = make_round_machine(1e25, 1);
  ModelRequest request{.tensor_parallel = 1, .pipeline_parallel = 2};
  request.counts.context = 4;
  request.counts.batch = 4;
  LayoutPredictor predictor(config, {.context = 4}, machine);
  const auto step = predictor.predict({.pipeline = 2}, 4, ModelPhase::decode);
  const StageStep& fullest = step->stages[0];
  machine.memory[0].capacity->value = fullest.memory_bytes() + 100;
  const auto answer = predict_model(config, request, machine);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(answer->fits());
  EXPECT_EQ(answer->max_batch, 4);
  EXPECT_EQ(answer->max_context, 4) << "a fifth token of 4 sequences in 2 layers has 128 bytes";
  machine.memory[0].capacity->value = fullest.memory_bytes() + 128;
  EXPECT_EQ(predict_model(config, request, machine)->max_context, 5);
}

}  // namespace
}  // namespace ridge
