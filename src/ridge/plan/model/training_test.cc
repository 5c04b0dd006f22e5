// Tests training steps and runs: counts by hand, and published FLOPs, memory and loss.
#include "ridge/plan/model/training_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ridge/plan/model/collective_bound.h"
#include "ridge/plan/model/training_collectives.h"

namespace ridge {
namespace {

TrainingRequest make_training_request(std::int64_t context, std::int64_t batch) {
  TrainingRequest request{.tensor_parallel = 1};
  request.counts.context = context;
  request.counts.batch = batch;
  return request;
}

TrainingStep predict(const std::string& config, const TrainingRequest& request, const std::string& machine = "h100") {
  auto step = predict_training(*model::find_config(config), request, *find_machine(machine));
  EXPECT_TRUE(step) << (step ? "" : step.error().message);
  return step ? *std::move(step) : TrainingStep{};
}

std::string fail(const std::string& config, const TrainingRequest& request) {
  const auto step = predict_training(*model::find_config(config), request, *find_machine("h100"));
  return step ? "none" : step.error().message;
}

// Returns the FLOPs of a module in all layers.
double sum_flops(const TrainingStep& step, TrainingPass pass, std::string_view module) {
  double sum = 0;
  for (const TrainingModule& each : step.modules)
    if (each.pass == pass && each.step.module == module) sum += each.count() * each.step.flops;
  return sum;
}

// 6 FLOPs per token and element of the matrices, and three times two products over the pairs of a causal mask.
TEST(Training, CountsSixFlopsPerParameterAndToken) {
  const double layer = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336, head = 128256.0 * 4096;
  const double tokens = 2 * 512, pairs = 2 * 512.0 * 513 / 2;
  const TrainingStep step = predict("llama_3_8b", make_training_request(512, 2));
  EXPECT_DOUBLE_EQ(step.model_flops, 6 * tokens * (32 * layer + head) + 32 * 3 * 4 * pairs * 4096);
  EXPECT_EQ(step.tokens(), 1024);
  // Masked pairs of 4 products and, if the scores are computed again, of 5; forward, of 2. Softmax and mask are below 5
  // %.
  const double product = 32 * 2 * pairs * 4096;
  EXPECT_NEAR(sum_flops(step, TrainingPass::forward, "attention"), 2 * product, 0.05 * 2 * product);
  EXPECT_NEAR(sum_flops(step, TrainingPass::backward, "attention"), 5 * product, 0.05 * 5 * product);
  TrainingRequest stored = make_training_request(512, 2);
  stored.recomputation = Recomputation::none;
  EXPECT_NEAR(sum_flops(predict("llama_3_8b", stored), TrainingPass::backward, "attention"), 4 * product,
              0.05 * 4 * product);
  // Each product of the forward pass has two in the backward pass.
  EXPECT_NEAR(sum_flops(step, TrainingPass::backward, "feed-forward"),
              2 * sum_flops(step, TrainingPass::forward, "feed-forward"), 0.002 * step.model_flops);
}

// Korthikanti et al. 2022 (arXiv 2205.05198), section 4.1: 34 s b h + 5 a s^2 b bytes for a layer of GPT. Without
// dropout there are no masks after attention and feed-forward (1 s b h each), and of the scores only the softmax's
// result is kept (2 a s^2 b). If the scores are computed again, 32 s b h is left.
TEST(Training, KeepsTheActivationsOfAPublishedFormula) {
  const double s = 64, b = 3, h = 12288, a = 96;
  for (const auto& [recomputation, expected] : {std::pair{Recomputation::none, 32 * s * b * h + 2 * a * s * s * b},
                                                {Recomputation::attention, 32 * s * b * h}}) {
    const auto programs =
        write_training_programs(*model::find_config("gpt_3_175b"), {.batch = 3, .context = 64}, recomputation);
    ASSERT_TRUE(programs) << programs.error().message;
    const TrainingPart& layer = programs->parts[1];
    ASSERT_TRUE(layer.is_layer());
    double bytes = 0;
    for (std::size_t t = 0; t < layer.program.tensors.size(); ++t) {
      const Tensor& tensor = layer.program.tensors[t];
      double elements = layer.is_kept[t] ? 1 : 0;
      for (const Axis& axis : tensor.axes) elements *= static_cast<double>(*axis.size(*layer.program.bind_sizes({})));
      bytes += elements * bytes_per_element(tensor.dtype);
    }
    EXPECT_DOUBLE_EQ(bytes, expected) << name(recomputation) << "\n" << layer.text;
  }
}

// Korthikanti et al. 2022, appendix A: 72 B L s h^2 (1 + s / 6h + V / 12hL) model FLOPs for a GPT with two products
// over all pairs; a causal mask leaves (s + 1) / 2 of s keys, so that s / 6h becomes (s + 1) / 12h. Table 5 has 1.10 s
// per step of the 22B model on 8 A100 with their selective recomputation, a model FLOP utilisation of 41.5 %.
TEST(Training, AgreesWithAPublishedCountOfModelFlops) {
  model::ModelConfig config = *model::find_config("gpt_3_175b");
  config.width = 6144;
  config.heads = config.kv_heads = 64;
  config.head_size = 96;
  config.feed_forward_width = 4 * 6144;
  config.vocabulary = 51200;
  config.layers.resize(48);
  TrainingRequest request = make_training_request(2048, 4);
  request.tensor_parallel = 8;
  const auto step = predict_training(config, request, *find_machine("a100_80"));
  ASSERT_TRUE(step) << step.error().message;
  const double h = 6144, s = 2048, layers = 48, vocabulary = 51200, batch = 4;
  EXPECT_DOUBLE_EQ(8 * step->model_flops,
                   72 * batch * layers * s * h * h * (1 + (s + 1) / (12 * h) + vocabulary / (12 * h * layers)));
  EXPECT_LT(step->step_s, 1.10);
  EXPECT_GT(step->utilisation(), 0.415);
}

TEST(Training, HasTheParametersOfEachShippedModel) {
  for (const std::string& name : model::shipped_names()) {
    const model::ModelConfig config = *model::find_config(name);
    // With parameters that are not in programs, and a vision encoder, which is not trained
    if (config.recurrent || config.has_sinks || config.vision || config.audio) continue;
    const auto step = predict_training(config, make_training_request(16, 16), *find_machine("h100"));
    ASSERT_TRUE(step) << name << ": " << step.error().message;
    EXPECT_DOUBLE_EQ(step->memory.weights, 2.0 * static_cast<double>(model::count_model(config)->parameters)) << name;
  }
}

// Programs and counts hold on every machine: a second machine writes and counts none.
TEST(Training, MachinesShareCounts) {
  const model::ModelConfig config = *model::find_config("llama_3_2_1b");
  TrainingRequest request = make_training_request(512, 8);
  request.tensor_parallel = 1;
  TrainingProgramCache shared;
  std::shared_ptr<const SizedTrainingPrograms> programs;
  const TrainingPartCounts* counts = nullptr;
  for (const char* name : {"h200", "mi300x"}) {
    TrainingProgramCache own;
    const Machine machine = *find_machine(name);
    const auto one = predict_training(config, request, machine, own),
               with_others = predict_training(config, request, machine, shared);
    ASSERT_TRUE(one && with_others) << name;
    EXPECT_EQ(with_others->step_s, one->step_s) << name;
    ASSERT_EQ(shared.size(), 1) << name;
    const auto& found = shared.begin()->second;
    EXPECT_EQ(found->counts->size(), found->programs.parts.size());
    if (programs) {
      EXPECT_EQ(found, programs) << name;
      EXPECT_EQ(found->counts->data(), counts) << name;
    }
    programs = found;
    counts = found->counts->data();
  }
}

TEST(Training, KeepsOnlyTheInputsOfLayersWithFullRecomputation) {
  TrainingRequest request = make_training_request(512, 2);
  request.recomputation = Recomputation::full;
  const TrainingStep full = predict("llama_3_8b", request);
  // x of 32 layers; the embedding keeps the indices, the head x, its norm, the logits and the labels.
  const double rows = 2 * 512, x = rows * 4096 * 2;
  EXPECT_DOUBLE_EQ(full.memory.activations, 32 * x + rows * 4 + 2 * x + rows * 128256 * 2 + rows * 4);
  request.recomputation = Recomputation::attention;
  const TrainingStep usual = predict("llama_3_8b", request);
  EXPECT_EQ(usual.recomputation_s, 0);
  EXPECT_GT(full.recomputation_s, 0.8 * usual.forward_s) << "all layers, not the embedding and the head";
  EXPECT_LE(full.forward_s, usual.forward_s);
  EXPECT_DOUBLE_EQ(full.model_flops, usual.model_flops);
  EXPECT_GT(full.flops, 1.2 * usual.flops);
}

// Adam reads 2 + 4 + 4 + 4 and writes 4 + 4 + 4 + 2 bytes per parameter; it keeps 12 (Rajbhandari et al. 2020).
TEST(Training, HasTheMemoryAndTheTimeOfAdam) {
  const double parameters = 8030261248;
  const TrainingStep step = predict("llama_3_8b", make_training_request(512, 1));
  EXPECT_DOUBLE_EQ(step.memory.weights, 2 * parameters);
  EXPECT_DOUBLE_EQ(step.memory.gradients, 2 * parameters);
  EXPECT_DOUBLE_EQ(step.memory.optimizer, 12 * parameters);
  EXPECT_NEAR(step.optimizer_s, 28 * parameters / 3.35e12, 1e-6);
  EXPECT_FALSE(step.fits());
  TrainingRequest wide = make_training_request(512, 1);
  wide.counts.weight_dtype = DType::f32;
  const TrainingStep f32 = predict("llama_3_8b", wide, "v100");
  EXPECT_DOUBLE_EQ(f32.memory.total() - f32.memory.activations - f32.memory.working, 16 * parameters);
  // A tied embedding has one gradient and one state.
  EXPECT_DOUBLE_EQ(predict("gemma_2_2b", make_training_request(64, 1)).memory.optimizer, 12.0 * 2614341888);
}

TEST(Training, DividesStateAmongDataRanks) {
  const double parameters = 8030261248;
  TrainingRequest request = make_training_request(512, 8);
  request.data_parallel = 4;
  double last = 1e300;
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    request.zero_stage = stage;
    const TrainingStep step = predict("llama_3_8b", request);
    EXPECT_DOUBLE_EQ(step.memory.optimizer, 12 * parameters / (stage >= 1 ? 4 : 1));
    EXPECT_DOUBLE_EQ(step.memory.gradients, 2 * parameters / (stage >= 2 ? 4 : 1));
    EXPECT_DOUBLE_EQ(step.memory.weights, 2 * parameters / (stage >= 3 ? 4 : 1));
    EXPECT_LT(step.memory.total(), last);
    last = step.memory.total();
    // An all-reduce moves as much as a reduce-scatter and an all-gather; stage 3 gathers twice.
    double sent = 0;
    for (const TrainingModule& each : step.modules)
      if (each.is_overlapped) sent += each.count() * each.step.bytes_sent;
    EXPECT_DOUBLE_EQ(sent, (stage == 3 ? 3 : 2) * 3.0 / 4 * 2 * parameters) << stage;
    EXPECT_DOUBLE_EQ(step.step_s, std::max(step.forward_s, step.gather_s) + std::max(step.backward_s, step.reduce_s) +
                                      step.optimizer_s);
  }
}

TEST(Training, AccumulatesGradients) {
  TrainingRequest request = make_training_request(512, 8);
  request.data_parallel = 2;
  const TrainingStep whole = predict("llama_3_8b", request);
  request.accumulated = 4;
  const TrainingStep parts = predict("llama_3_8b", request);
  EXPECT_DOUBLE_EQ(parts.model_flops, whole.model_flops);
  EXPECT_DOUBLE_EQ(parts.memory.activations, whole.memory.activations / 4);
  EXPECT_DOUBLE_EQ(parts.optimizer_s, whole.optimizer_s);
  EXPECT_DOUBLE_EQ(parts.reduce_s, whole.reduce_s);
  // Gradients are exchanged while the last part computes.
  EXPECT_DOUBLE_EQ(parts.step_s, parts.forward_s + parts.backward_s * 3 / 4 +
                                     std::max(parts.backward_s / 4, parts.reduce_s) + parts.optimizer_s);
}

TEST(Training, WritesCollectivesOfDataRanks) {
  EXPECT_EQ(write_data_collective(DataCollective::all_reduce, 10, DType::bf16, {4, 8, 1}),
            "mesh C = 4, T = 8\ndims N = 96\ndata part: bf16[N_T]{U_C}\nall: bf16[N_T] = part\n");
  EXPECT_EQ(write_data_collective(DataCollective::reduce_scatter, 12, DType::f32, {4, 1, 1}),
            "mesh C = 4\ndims N = 12\ndata part: f32[N]{U_C}\nall: f32[N_C] = part\n");
  EXPECT_EQ(write_data_collective(DataCollective::all_gather, 12, DType::bf16, {4, 8, 1}),
            "mesh C = 4, T = 8\ndims N = 96\ndata part: bf16[N_TC]\nall: bf16[N_T] = part\n");
  // Pairs of experts' ranks in each of 2 stages, in 3 groups: all of a stage exchange.
  EXPECT_EQ(write_data_collective(DataCollective::all_reduce, 12, DType::bf16, {3, 2, 2}),
            "mesh C = 3, T = 2, E = 2\ndims N = 24\ndata part: bf16[N_T]{U_CE}\nall: bf16[N_T] = part\n");
  // 8 chips are one host. Data ranks of 8 chips each exchange between hosts, 50 GB/s a chip.
  const auto within = predict_collective(
      write_data_collective(DataCollective::all_reduce, 1 << 30, DType::bf16, {8, 1, 1}), *find_machine("h100"));
  const auto between = predict_collective(
      write_data_collective(DataCollective::all_reduce, 1 << 30, DType::bf16, {8, 8, 1}), *find_machine("h100"));
  ASSERT_TRUE(within && between);
  EXPECT_DOUBLE_EQ(within->bytes_sent, 2.0 * 7 / 8 * 2 * (1 << 30));
  EXPECT_DOUBLE_EQ(between->bytes_sent, within->bytes_sent);
  EXPECT_NEAR(between->seconds, between->bytes_sent / 50e9, 0.01 * between->seconds);
  EXPECT_LT(within->seconds, between->seconds / 5);
}

// Brown et al. 2020, table D.1: GPT-3 175B took 3.14e23 FLOP for 300e9 tokens. Grattafiori et al. 2024, section 3.2:
// Llama 3.1 405B took 3.8e25 for 15.6e12. Both are 6 N D.
TEST(Training, HasThePublishedFlopsOfRuns) {
  TrainingRequest request = make_training_request(64, 16);
  request.tensor_parallel = 8;
  request.tokens = 300e9;
  const TrainingStep gpt = predict("gpt_3_175b", request);
  EXPECT_NEAR(6 * gpt.parameters * 300e9, 3.14e23, 0.005e23);
  EXPECT_NEAR(gpt.run->flops, 3.14e23, 0.02e23);  // With attention over few tokens
  request.tokens = 15.6e12;
  request.utilisation = 0.41;
  request.price = 2;
  const TrainingStep llama = predict("llama_3_1_405b", request);
  EXPECT_NEAR(6 * llama.parameters * 15.6e12, 3.8e25, 0.01e25);
  const TrainingRun& run = *llama.run;
  EXPECT_DOUBLE_EQ(run.seconds, run.flops / (8 * 989.4e12 * 0.41));
  EXPECT_DOUBLE_EQ(run.chip_hours, 8 * run.seconds / 3600);
  EXPECT_DOUBLE_EQ(*run.cost, 2 * run.chip_hours);
  EXPECT_DOUBLE_EQ(*run.energy_j, 8 * 700 * run.seconds);
  EXPECT_FALSE(run.is_bound);
}

TEST(Training, TakesTheUtilisationOfTheBound) {
  TrainingRequest request = make_training_request(512, 4);
  request.tokens = 1e9;
  const TrainingStep step = predict("llama_3_8b", request);
  EXPECT_TRUE(step.run->is_bound);
  EXPECT_DOUBLE_EQ(step.run->seconds, 1e9 / (step.tokens() / step.step_s));
  EXPECT_LT(step.utilisation(), 1);
}

// L(N, D) of Hoffmann et al. 2022 for Chinchilla: 1.69 + 406.4 / 70e9^0.34 + 410.7 / 1.4e12^0.28.
TEST(Training, HasThePublishedLossOfChinchilla) {
  const std::vector<PredictedLoss> loss = predict_loss(70e9, 1.4e12);
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_NEAR(loss[0].loss, 1.69 + 0.0835 + 0.1632, 2e-4);
  // 1.8172 + 482.01 / 70e9^0.3478 + 2085.43 / 1.4e12^0.3658
  EXPECT_NEAR(loss[1].loss, 1.8172 + 0.0815 + 0.0752, 2e-4);
  TrainingRequest request = make_training_request(64, 1);
  request.tokens = 1e12;
  EXPECT_FALSE(predict("mixtral_8x7b", request).loss);
}

TEST(Training, DividesExpertsAmongDataRanks) {
  TrainingRequest request = make_training_request(256, 8);
  request.data_parallel = request.expert_parallel = 8;
  const TrainingStep step = predict("mixtral_8x7b", request);
  // 45 097 156 608 parameters of experts are on one of 8 ranks each, the others on all.
  const double experts = 45097156608, others = 46702792704 - experts;
  EXPECT_DOUBLE_EQ(step.memory.weights, 2 * (experts / 8 + others));
  double summed = 0;
  for (const TrainingModule& each : step.modules)
    if (each.is_overlapped) summed += each.step.bytes_sent;
  EXPECT_DOUBLE_EQ(summed, 2.0 * 7 / 8 * 2 * others);
}

// With 4 of 8 data ranks that divide the experts, 2 ranks have the same ones and sum their gradients.
TEST(Training, DividesExpertsAmongSomeDataRanks) {
  TrainingRequest request = make_training_request(256, 8);
  request.data_parallel = 8;
  request.expert_parallel = 4;
  request.zero_stage = 1;
  const TrainingStep step = predict("mixtral_8x7b", request);
  const double experts = 45097156608, others = 46702792704 - experts;
  EXPECT_DOUBLE_EQ(step.memory.weights, 2 * (experts / 4 + others));
  EXPECT_DOUBLE_EQ(step.memory.optimizer, 12 * (experts / 4 / 2 + others / 8));
  request.zero_stage = 0;
  std::map<std::string, double> sent;
  for (const TrainingModule& each : predict("mixtral_8x7b", request).modules)
    if (each.is_overlapped) sent[each.step.module] += each.step.bytes_sent;
  EXPECT_EQ(sent.size(), 2u);
  EXPECT_DOUBLE_EQ(sent["sum of gradients"], 2.0 * 7 / 8 * 2 * others);
  EXPECT_DOUBLE_EQ(sent["sum of gradients of experts"], 2.0 * 1 / 2 * 2 * experts / 4);
  request.data_parallel = 6;
  request.counts.batch = 6;
  EXPECT_EQ(fail("mixtral_8x7b", request),
            "expected --ep that divides --tp, or that divides --dp with --tp 1; found --tp 1 --ep 4 --dp 6");
}

TEST(Training, DividesLayersIntoStages) {
  TrainingRequest request = make_training_request(512, 8);
  request.accumulated = 8;
  const TrainingStep one = predict("llama_3_8b", request);
  request.pipeline_parallel = 4;
  const TrainingStep step = predict("llama_3_8b", request);
  EXPECT_EQ(step.layout.chips(), 4);
  ASSERT_EQ(step.stages.size(), 4u);
  const double embedding = 128256.0 * 4096, layer = 218112000, norm = 4096;
  double activations = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const TrainingStage& stage = step.stages[i];
    EXPECT_EQ(stage.layers, 8);
    EXPECT_EQ(stage.kept_micro_batches, 4 - static_cast<std::int64_t>(i));
    const double parameters = 8 * layer + (i == 0 ? embedding : 0) + (i == 3 ? embedding + norm : 0);
    EXPECT_DOUBLE_EQ(stage.memory.weights, 2 * parameters);
    EXPECT_DOUBLE_EQ(stage.memory.optimizer, 12 * parameters);
    activations += stage.memory.activations / static_cast<double>(stage.kept_micro_batches);
  }
  EXPECT_DOUBLE_EQ(activations, one.memory.activations);
  EXPECT_DOUBLE_EQ(step.memory.total(), step.stages[0].memory.total());
  EXPECT_DOUBLE_EQ(4 * step.model_flops, one.model_flops);
  EXPECT_NEAR(4 * step.flops, one.flops, 1e-9 * one.flops);
  EXPECT_NEAR(4 * (step.forward_s + step.backward_s), one.forward_s + one.backward_s, 1e-9 * one.step_s);
  // The last stage, which has the head, is the slowest: 8 of its passes after 3 forward and before 3 backward passes.
  const auto pass_s = [&](std::size_t i, TrainingPass pass) {
    return step.stages[i].times.bound_s[static_cast<std::size_t>(pass)];
  };
  double expected = 8 * (pass_s(3, TrainingPass::forward) + pass_s(3, TrainingPass::backward));
  for (std::size_t i = 0; i < 3; ++i) expected += pass_s(i, TrainingPass::forward) + pass_s(i, TrainingPass::backward);
  for (const TrainingModule& each : step.modules)
    if (each.step.part == "stages") {
      EXPECT_DOUBLE_EQ(each.step.bytes_sent, 512 * 4096 * 2);
      expected += 3 * each.step.bound_s;
    }
  EXPECT_DOUBLE_EQ(step.step_s, expected + pass_s(0, TrainingPass::optimizer));
  EXPECT_GT(step.idle_s, 0.2 * step.step_s);
  EXPECT_LT(step.idle_s, 0.35 * step.step_s) << "3 of 11 slots, and uneven stages";
}

TEST(Training, CopiesATiedEmbeddingIntoTheLastStage) {
  TrainingRequest request = make_training_request(64, 4);
  request.pipeline_parallel = 2;
  request.accumulated = 4;
  const TrainingStep step = predict("gemma_2_2b", request);
  EXPECT_DOUBLE_EQ(step.stages[0].memory.weights + step.stages[1].memory.weights,
                   2.0 * (2614341888.0 + 256000.0 * 2304));
  EXPECT_TRUE(std::any_of(step.notes.begin(), step.notes.end(), [](const std::string& note) {
    return note.starts_with("the first and the last stage have the embedding, which is also the head, and add its");
  }));
}

TEST(Training, ChoosesTheNumberOfMicroBatches) {
  TrainingRequest request = make_training_request(512, 16);
  request.pipeline_parallel = 4;
  request.tensor_parallel = 2;
  const TrainingStep chosen = predict("llama_3_8b", request);
  double fastest = 1e300;
  std::int64_t best = 0;
  for (const std::int64_t parts : {1, 2, 4, 8, 16}) {
    request.accumulated = parts;
    const TrainingStep step = predict("llama_3_8b", request);
    if (step.fits() && step.step_s < fastest) {
      fastest = step.step_s;
      best = parts;
    }
  }
  EXPECT_EQ(chosen.accumulated, best);
  EXPECT_DOUBLE_EQ(chosen.step_s, fastest);
}

TEST(Training, PredictsPlannedKernelsOfBothPasses) {
  TrainingRequest request = make_training_request(1024, 2);
  request.plan = PlanRequest{.count_bytes = false};
  for (const Recomputation recomputation : {Recomputation::attention, Recomputation::full}) {
    request.recomputation = recomputation;
    const TrainingStep step = predict("llama_3_8b", request);
    ASSERT_TRUE(step.predicted_s) << step.remark;
    EXPECT_LT(step.predicted_s->low, step.predicted_s->expected);
    EXPECT_LT(step.predicted_s->expected, step.predicted_s->high);
    EXPECT_GT(step.predicted_s->expected, step.step_s);
    EXPECT_LT(step.predicted_s->expected, 2.5 * step.step_s);
    std::map<TrainingPass, double> sums;
    for (const TrainingModule& each : step.modules)
      if (each.step.predicted_s) sums[each.pass] += each.count() * each.step.predicted_s->expected;
    EXPECT_GT(sums[TrainingPass::forward], 0.9 * step.forward_s);
    EXPECT_GT(sums[TrainingPass::backward], 0.9 * step.backward_s);
    EXPECT_EQ(sums[TrainingPass::recomputation] > 0, recomputation == Recomputation::full);
    EXPECT_NEAR(sums[TrainingPass::forward] + sums[TrainingPass::recomputation] + sums[TrainingPass::backward] +
                    sums[TrainingPass::optimizer],
                step.predicted_s->expected, 1e-9 * step.step_s);
  }
  request.recomputation = Recomputation::none;
  EXPECT_EQ(fail("llama_3_8b", request), "expected --plan without --recompute none");
  request.recomputation = Recomputation::attention;
  const TrainingStep other = predict("llama_3_8b", request, "mi300x");
  EXPECT_FALSE(other.predicted_s);
  EXPECT_NE(other.remark, "");
}

// The gradient of the last state is in f32, those of the products before the recurrence are in bf16.
TEST(Training, MultipliesGradientsOfRecurrencesAtThePeakOfWeights) {
  for (const char* name : {"qwen3_next_80b_a3b", "nemotron_3_nano_30b_a3b", "codestral_mamba_7b"}) {
    const TrainingStep step = predict(name, make_training_request(4096, 2));
    for (const TrainingModule& each : step.modules)
      if (each.step.limiter == Limiter::compute && each.step.module != "mamba" &&
          each.step.module != "linear attention")
        EXPECT_LT(each.step.bound_s, 1.02 * each.step.flops / 989.5e12) << name << ", " << each.step.module;
  }
}

// The states of 64 layers, 2 x 512 tokens, 8192 channels of 16: the scan's factors and results are not kept.
TEST(Training, ComputesTheStatesOfMamba1Again) {
  TrainingRequest request = make_training_request(512, 2);
  const TrainingStep usual = predict("falcon_mamba_7b", request);
  request.recomputation = Recomputation::none;
  const TrainingStep stored = predict("falcon_mamba_7b", request);
  const double states = 64.0 * 2 * 512 * 8192 * 16 * 2;
  EXPECT_DOUBLE_EQ(stored.memory.activations - usual.memory.activations, 2 * states);
  EXPECT_EQ(usual.recomputation_s, 0) << "they are computed in the backward pass";
  // exp(-exp(alog) * step), step * xm2 * bm and the scan are 8 FLOPs for each element.
  EXPECT_DOUBLE_EQ(
      sum_flops(usual, TrainingPass::backward, "mamba") - sum_flops(stored, TrainingPass::backward, "mamba"),
      8 * states / 2);
  EXPECT_LT(usual.backward_s, stored.backward_s) << "less is read from memory";
}

TEST(Training, TrainsLlama4) {
  const TrainingStep step = predict("llama_4_scout_text", make_training_request(64, 8));
  const TrainingStep decoded = predict("mixtral_8x7b", make_training_request(64, 8));
  // One of 16 experts, and one that all tokens use: each product of the forward pass has two in the backward pass.
  for (const TrainingStep* x : {&step, &decoded})
    EXPECT_NEAR(sum_flops(*x, TrainingPass::backward, "experts"), 2 * sum_flops(*x, TrainingPass::forward, "experts"),
                0.01 * sum_flops(*x, TrainingPass::forward, "experts"));
}

TEST(Training, RanksLayouts) {
  TrainingLayoutRequest request{.training = make_training_request(512, 16), .chips = {8}};
  request.training.recomputation = Recomputation::full;
  request.training.zero_stage = 1;
  TrainingProgramCache programs;
  const auto ranking =
      rank_training_layouts(*model::find_config("llama_3_8b"), request, *find_machine("h100"), programs);
  ASSERT_TRUE(ranking) << ranking.error().message;
  // 1, 2, 4, 8 chips of tensor parallelism with each division of the others into stages and data ranks: 4 + 3 + 2 + 1.
  EXPECT_EQ(ranking->layouts.size() + ranking->unfit.size(), 10u);
  ASSERT_FALSE(ranking->layouts.empty());
  for (const TrainingStep& x : ranking->layouts) {
    EXPECT_TRUE(x.fits());
    EXPECT_LE(x.tokens_per_s_per_chip(), ranking->layouts.front().tokens_per_s_per_chip());
    EXPECT_EQ(x.layout.chips(), 8);
  }
  const TrainingStep& best = ranking->layouts.front();
  TrainingRequest same = request.training;
  same.tensor_parallel = best.layout.tensor;
  same.pipeline_parallel = best.layout.pipeline;
  same.data_parallel = best.layout.data;
  same.accumulated = best.accumulated;
  if (same.data_parallel == 1) same.zero_stage = 0;
  EXPECT_DOUBLE_EQ(predict("llama_3_8b", same).step_s, best.step_s);
}

TEST(Training, TakesTheFewestChipsThatHoldTheStep) {
  TrainingRequest request = make_training_request(512, 1);
  request.tensor_parallel = {};
  EXPECT_EQ(predict("qwen3_0_6b", request).layout.chips(), 1);
  // 16 bytes of 8.03e9 parameters are 128 GB, on chips of 85.5 GB.
  const TrainingStep chosen = predict("llama_3_8b", request);
  EXPECT_EQ(chosen.layout.chips(), 2);
  EXPECT_TRUE(chosen.is_tensor_chosen);
  EXPECT_FALSE(predict("llama_3_8b", make_training_request(512, 1)).is_tensor_chosen);
  request.expert_parallel = 4;
  EXPECT_EQ(predict("mixtral_8x7b", request).layout.chips(), 16);  // 47 GB on each; 8 chips would need 93 GB
}

TEST(Training, ReportsInvalidRequests) {
  TrainingRequest request = make_training_request(64, 6);
  request.data_parallel = 4;
  EXPECT_EQ(fail("llama_3_8b", request),
            "expected a --batch that --dp times --accumulate divides, found --batch 6 --dp 4 --accumulate 1");
  request.data_parallel = 0;
  EXPECT_EQ(fail("llama_3_8b", request), "expected --dp of at least 1, found 0");
  request.data_parallel = 1;
  request.accumulated = 0;
  EXPECT_EQ(fail("llama_3_8b", request), "expected --accumulate of at least 1, found 0");
  request.accumulated = {};
  request.zero_stage = 2;
  EXPECT_EQ(fail("llama_3_8b", request), "expected --zero 2 together with --dp of at least 2");
  EXPECT_EQ(fail("llama_3_8b", make_training_request(1, 1)),
            "expected --context of at least 2 tokens with --phase train, found 1");
  TrainingRequest narrow = make_training_request(64, 1);
  narrow.counts.weight_dtype = DType::e4m3;
  EXPECT_EQ(fail("llama_3_8b", narrow), "expected --dtype bf16, f16 or f32 with --phase train, found e4m3");
  EXPECT_EQ(fail("mixtral_8x7b", make_training_request(3, 1)), "expected at least 8 rows for 8 experts, found 6");
  TrainingRequest run = make_training_request(64, 1);
  run.tokens = 0;
  EXPECT_EQ(fail("llama_3_8b", run), "expected --tokens from 1 to 1e+18, found 0");
  run.tokens = 1e9;
  run.utilisation = 1.5;
  EXPECT_EQ(fail("llama_3_8b", run), "expected --utilisation above 0 and up to 1, found 1.5");
}

}  // namespace
}  // namespace ridge
