// Tests the programs of language models: their parameters and caches are those that count.h counts, their products have
// the FLOPs of literal loops, and every verb reads them.
#include "ridge/model/program.h"
#include "ridge/model/vision_program.h"

#include <gtest/gtest.h>

#include "ridge/model/audio_program.h"
#include "ridge/model/count.h"
#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"

namespace ridge::model {
namespace {

Program load(const std::string& text) {
  auto loaded = load_program(text, DType::bf16);
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message + "\n" + text);
  return loaded ? std::move(loaded->program) : Program{};
}

// Returns the elements of the inputs with this use.
std::int64_t count_elements(const Program& program, InputUse use) {
  const Bindings sizes = *program.bind_sizes({});
  std::int64_t sum = 0;
  for (const Tensor& tensor : program.tensors) {
    std::int64_t elements = 1;
    for (const Axis& axis : tensor.axes) elements *= *axis.size(sizes);
    if (tensor.declared_use == use) sum += elements;
  }
  return sum;
}

// Returns the FLOPs of each statement.
std::map<std::string, std::int64_t> count_flops(const std::string& text) {
  const auto explanation = explain(load(text), *find_machine("h100"), {}, {}, Thresholds::skipped);
  EXPECT_TRUE(explanation) << (explanation ? "" : explanation.error().message);
  std::map<std::string, std::int64_t> flops;
  if (!explanation) return flops;
  for (const Prediction& op : explanation->ops) flops[op.work.name] = static_cast<std::int64_t>(*op.flops);
  return flops;
}

// Returns the bytes of the inputs with this use.
std::int64_t count_input_bytes(const Program& program, InputUse use) {
  const Bindings sizes = *program.bind_sizes({});
  std::int64_t sum = 0;
  for (const Tensor& tensor : program.tensors) {
    std::int64_t elements = 1;
    for (const Axis& axis : tensor.axes) elements *= *axis.size(sizes);
    if (tensor.declared_use == use) sum += elements * dtype_bits(tensor.dtype) / 8;
  }
  return sum;
}

ModelConfig find(const std::string& name) { return *find_config(name); }

std::int64_t embedding_elements(const ModelConfig& config) {
  return config.is_tied ? config.vocabulary * config.width : 0;
}

// Learned scores of heads are not in the programs.
std::int64_t sink_elements(const ModelConfig& config) {
  return config.has_sinks ? static_cast<std::int64_t>(config.layers.size()) * config.heads : 0;
}

std::int64_t count_vision_elements(const ModelConfig& config) {
  if (!config.vision) return 0;
  const std::int64_t size = config.vision->image_size > 0 ? 0 : 2 * config.vision->patch * config.vision->merged;
  const auto programs = write_vision_programs(config, {.image_size = size});
  EXPECT_TRUE(programs) << programs.error().message;
  std::int64_t parameters = 0;
  for (const PartProgram& part : programs->parts)
    parameters += part.count * count_elements(load(part.text), InputUse::parameter);
  return parameters;
}

std::int64_t count_audio_elements(const ModelConfig& config) {
  if (!config.audio) return 0;
  const auto programs = write_audio_programs(config, {}, 1);
  EXPECT_TRUE(programs) << programs.error().message;
  std::int64_t parameters = 0;
  for (const PartProgram& part : programs->parts)
    parameters += part.count * count_elements(load(part.text), InputUse::parameter);
  return parameters;
}

TEST(ModelProgram, HasTheParametersAndTheCacheOfEachShippedModel) {
  for (const std::string& name : shipped_names()) {
    const ModelConfig config = find(name);
    for (const std::int64_t new_tokens : {1, 7}) {
      const StepOptions options{.batch = 3, .new_tokens = new_tokens, .context = 11};
      const auto programs = write_programs(config, options);
      ASSERT_TRUE(programs) << programs.error().message;
      std::int64_t parameters = 0, cached = 0, state = 0;
      for (const PartProgram& part : programs->parts) {
        const Program program = load(part.text);
        parameters += part.count * count_elements(program, InputUse::parameter);
        cached += part.count * count_elements(program, InputUse::cache);
        state += part.count * count_input_bytes(program, InputUse::state);
      }
      parameters += count_vision_elements(config) + count_audio_elements(config);
      const ModelCount count = *count_model(config, {.context = 11, .batch = 3});
      EXPECT_EQ(parameters - embedding_elements(config) + sink_elements(config), count.parameters) << name;
      EXPECT_EQ(2 * cached + state, *count.cache_bytes) << name;
      const std::int64_t cross =
          config.audio ? 2 * 2 * config.audio->vectors * config.width * std::ssize(config.layers) : 0;
      EXPECT_EQ(state + 3 * cross, 3 * count.state_bytes_per_sequence) << name;
    }
    const auto whole = write_model_program(config, {.batch = 2, .new_tokens = 1, .context = 5});
    EXPECT_EQ(count_elements(load(*whole), InputUse::parameter) + sink_elements(config) +
                  count_vision_elements(config) + count_audio_elements(config),
              count_model(config)->parameters)
        << name;
  }
}

// Pairs of new tokens and keys, counted one by one.
std::int64_t count_pairs_literally(std::int64_t new_tokens, std::int64_t context, std::int64_t window) {
  std::int64_t pairs = 0;
  for (std::int64_t i = context - new_tokens; i < context; ++i)
    for (std::int64_t j = 0; j < context; ++j) pairs += j <= i && (window == 0 || i - j < window) ? 1 : 0;
  return pairs;
}

TEST(ModelProgram, CountsScoresOfTheKeysThatATokenSees) {
  ModelConfig config = find("gemma_2_2b");
  config.window = 6;
  for (const auto& [new_tokens, context] :
       {std::pair<std::int64_t, std::int64_t>{1, 4}, {1, 20}, {20, 20}, {5, 20}, {3, 7}}) {
    const StepOptions options{.batch = 2, .new_tokens = new_tokens, .context = context};
    for (const std::int64_t layer : {0, 1}) {
      const auto text = write_layer_program(config, options, layer);
      const std::int64_t window = config.layers[static_cast<std::size_t>(layer)].is_sliding ? config.window : 0;
      const std::int64_t pairs = count_pairs_literally(new_tokens, context, window);
      EXPECT_EQ(count_flops(*text)["s"], 2 * 2 * config.heads * config.head_size * pairs) << *text;
    }
  }
}

// The products of a token are two FLOPs per active parameter of the matrices.
TEST(ModelProgram, MultipliesEachActiveParameterOnce) {
  for (const char* name : {"llama_3_8b", "qwen2_5_7b", "gpt_3_175b", "mixtral_8x7b", "qwen3_30b_a3b"}) {
    const ModelConfig config = find(name);
    const auto text = write_layer_program(config, {.batch = 2, .new_tokens = 3, .context = 3}, 0);
    std::int64_t flops = 0;
    auto counted = count_flops(*text);
    for (const char* product : {"q", "k", "v", "o", "g", "u", "w", "d", "r"}) {
      const auto first = counted.find(std::string(product) + "0");
      const bool is_sum = std::string_view(product) == "w" && config.experts;
      if (!is_sum) flops += first != counted.end() ? first->second : counted[product];
    }
    std::int64_t matrices = 0;
    for (const PartCount& part : count_model(config)->parts)
      if (part.layers > 0 && part.name != "norms" && part.name != "attention norms") matrices += part.active_parameters;
    matrices /= static_cast<std::int64_t>(config.layers.size());
    if (config.has_qkv_bias) matrices -= (config.heads + 2 * config.kv_heads) * config.head_size;
    if (config.has_output_bias) matrices -= config.width;
    if (config.has_feed_forward_bias) matrices -= config.width + config.feed_forward_width;
    EXPECT_EQ(flops, 2 * 6 * matrices) << name << "\n" << *text;
  }
}

TEST(ModelProgram, DividesHeadsAndWidthsAmongChips) {
  const ModelConfig llama = find("llama_3_8b");
  const StepOptions options{.context = 64, .layout = {.tensor = 16}};
  const auto programs = write_programs(llama, options);
  ASSERT_TRUE(programs);
  EXPECT_NE(programs->parts[1].text.find("G = 1, R = 2, E = 128, F = 896"), std::string::npos)
      << programs->parts[1].text;
  EXPECT_EQ(programs->parts[1].collectives.size(), 2u);
  EXPECT_EQ(programs->parts[1].collectives[0],
            "mesh C = 16\ndims B = 1, D = 4096\ndata part: bf16[B, D]{U_C}\nall: bf16[B, D] = part\n");
  StepOptions odd = options;
  odd.layout.tensor = 3;
  EXPECT_EQ(write_programs(llama, odd).error().message, "llama_3_8b: expected --tp that divides the 32 heads, found 3");
  EXPECT_EQ(write_model_program(llama, options).error().message, "expected --layer with --print and several chips");
  EXPECT_EQ(write_layer_program(llama, {}, 32).error().message, "expected --layer from 0 to 31, found 32");
  EXPECT_EQ(write_programs(llama, {.new_tokens = 9, .context = 8}).error().message,
            "expected --new-tokens from 1 to 8, found 9");
}

// 2 880 columns of gpt-oss's experts are 360 on each of 8 chips, which blocks of 32 fill up to 384.
TEST(ModelProgram, FillsBlocksOfDividedExperts) {
  const auto programs = write_programs(find("gpt_oss_120b"), {.context = 64, .layout = {.tensor = 8}});
  ASSERT_TRUE(programs) << programs.error().message;
  EXPECT_NE(programs->parts[1].text.find("M = 384"), std::string::npos) << programs->parts[1].text;
  EXPECT_FALSE(load(programs->parts[1].text).statements.empty());
  EXPECT_NE(std::find(programs->notes.begin(), programs->notes.end(),
                      "a chip's columns of experts are filled up to whole blocks of mxfp4"),
            programs->notes.end());
}

// Each data rank has its sequences and a part of the experts, for which all ranks send rows.
TEST(ModelProgram, DividesExpertsAmongDataRanks) {
  const ModelConfig qwen = find("qwen3_30b_a3b");
  const StepOptions options{.batch = 32, .context = 64, .layout = {.expert = 8, .data = 8}};
  const auto programs = write_programs(qwen, options);
  ASSERT_TRUE(programs) << programs.error().message;
  const PartProgram& layer = programs->parts[1];
  EXPECT_NE(layer.text.find("B = 4, "), std::string::npos) << layer.text;
  EXPECT_NE(layer.text.find("g[A, O, M] = routed(sent, gate, j over W)\n"), std::string::npos) << layer.text;
  ASSERT_EQ(layer.collectives.size(), 2u);
  EXPECT_EQ(layer.collectives[0],
            "mesh C = 8\ndims N = 256, D = 2048\ndata part: bf16[N, D_C]\nall: bf16[N_C, D] = part\n");
  EXPECT_TRUE(load(layer.collectives[0]).statements.size() == 1);
  const auto one = write_programs(qwen, {.batch = 4, .context = 64});
  const std::int64_t experts = 128 * 3 * 2048 * 768;
  EXPECT_EQ(count_elements(load(one->parts[1].text), InputUse::parameter) -
                count_elements(load(layer.text), InputUse::parameter),
            experts - experts / 8);
  const auto latent =
      write_programs(find("deepseek_v3"), {.batch = 64, .context = 8, .layout = {.expert = 16, .data = 16}});
  EXPECT_NE(latent->parts[2].text.find("A = 32, "), std::string::npos) << latent->parts[2].text;
  const auto error_of = [&](const ModelConfig& config, const ChipLayout& layout) {
    return write_programs(config, {.batch = 32, .context = 64, .layout = layout}).error().message;
  };
  EXPECT_EQ(error_of(qwen, {.tensor = 2, .expert = 4, .data = 2}),
            "expected --ep that divides --tp, or that divides --dp with --tp 1; found --tp 2 --ep 4 --dp 2");
  EXPECT_EQ(error_of(qwen, {.expert = 4, .data = 6}),
            "expected --ep that divides --tp, or that divides --dp with --tp 1; found --tp 1 --ep 4 --dp 6");
  const auto replicas = write_programs(qwen, {.batch = 64, .context = 64, .layout = {.expert = 8, .data = 16}});
  ASSERT_TRUE(replicas) << replicas.error().message;
  EXPECT_EQ(replicas->parts[1].text, layer.text)
      << "two groups of 8 ranks, each with all experts and half of the sequences";
  EXPECT_EQ(replicas->parts[1].collectives, layer.collectives);
  EXPECT_EQ(error_of(qwen, {.data = 64}), "expected --dp of at most --batch, which is 32, found 64");
  EXPECT_EQ(error_of(find("llama_3_8b"), {.expert = 2}),
            "llama_3_8b: expected --ep 1 for a model without experts, found 2");
}

TEST(ModelProgram, FollowsKeysThatChangeOnlyValues) {
  const std::string qwen =
      R"({"model_type": "qwen3_moe", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "vocab_size": 10,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "num_experts": 4, "num_experts_per_tok": 2,
 "moe_intermediate_size": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000}, "norm_topk_prob": )";
  const auto write = [&](const std::string& flag) {
    return *write_layer_program(*parse_config(qwen + flag + "}", "config.json", "test"), {.context = 4}, 0);
  };
  EXPECT_NE(write("true").find("\ne[B, K] = e0 / sum(e0 over K)\n"), std::string::npos) << write("true");
  EXPECT_NE(write("false").find("\ne[B, K] = e0\n"), std::string::npos) << write("false");
  EXPECT_NE(write("true").find("rotary(q1, t over E, base = 1000000)"), std::string::npos) << write("true");
}

TEST(ModelProgram, AbsorbsTheMatricesOfLatentAttentionForFewTokens) {
  const ModelConfig deepseek = find("deepseek_v3");
  const auto decode = write_layer_program(deepseek, {.context = 4096}, 0);
  const auto prefill = write_layer_program(deepseek, {.new_tokens = 4096, .context = 4096}, 0);
  EXPECT_NE(decode->find("qk[B, H, L] = q * wk\n"), std::string::npos) << *decode;
  EXPECT_NE(prefill->find("k[B, T, H, N] = latents * wk\n"), std::string::npos) << *prefill;
}

// InferenceX-app #849: a token of the context costs 4 x heads x size FLOPs in a layer of Llama 3 70B: 32 768, not
// twice.
TEST(ModelProgram, CountsScoresAndSumsOfAContextToken) {
  auto flops = count_flops(*write_layer_program(find("llama_3_70b"), {.context = 1000}, 0));
  EXPECT_EQ(flops["s"] + flops["a"], 32768 * 1000);
  // xformers #1404: 8 query heads that share 2 key heads compute the scores of 8 heads.
  const std::string text = R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 1,
 "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 10})";
  flops = count_flops(*write_layer_program(*parse_config(text, "config.json", "test"), {.context = 50}, 0));
  EXPECT_EQ(flops["s"] + flops["a"], 4 * 8 * 4 * 50);
}

// AIC #1390: with 8 chips of expert parallelism, a chip of Kimi K2 has 48 of 384 experts.
TEST(ModelProgram, HasTheExpertsOfAChip) {
  const ModelConfig kimi = find("kimi_k2");
  const auto one = write_programs(kimi, {.batch = 8, .context = 64});
  const auto eight = write_programs(kimi, {.batch = 8, .context = 64, .layout = {.expert = 8, .data = 8}});
  ASSERT_TRUE(one && eight);
  EXPECT_EQ(count_elements(load(one->parts[2].text), InputUse::parameter) -
                count_elements(load(eight->parts[2].text), InputUse::parameter),
            (384 - 48) * 3ll * 7168 * 2048);
}

// A token multiplies the state with its key and its query, and changes each element: a decay, a product, a sum.
TEST(ModelProgram, CountsTheRecurrenceOfAToken) {
  auto flops = count_flops(*write_layer_program(find("qwen3_next_80b_a3b"), {.batch = 2, .context = 9}, 0));
  const std::int64_t state = 2 * 32 * 128 * 128;
  EXPECT_EQ(flops["old"], 2 * state);
  EXPECT_EQ(flops["read"], 2 * state);
  EXPECT_EQ(flops["next"], 3 * state);
  EXPECT_EQ(flops["q1"], 2 * 2 * 3 * 2048) << "three earlier tokens of the convolution";
  const auto layer = write_programs(find("qwen3_next_80b_a3b"), {.context = 9});
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->parts[1].name, "layer, attention");
  EXPECT_EQ(layer->parts[1].count, 12);
  EXPECT_EQ(layer->parts[2].name, "layer, linear attention");
  // Mamba-2: a decay, the input's two products with step and vector, a sum; 23 layers of 52.
  flops = count_flops(*write_layer_program(find("nemotron_3_nano_30b_a3b"), {.batch = 2, .context = 9}, 0));
  EXPECT_EQ(flops["read"], 2 * 2 * 64 * 64 * 128);
  const auto nano = write_programs(find("nemotron_3_nano_30b_a3b"), {.context = 9});
  ASSERT_TRUE(nano);
  std::string kinds;
  for (const PartProgram& part : nano->parts) kinds += part.name + " " + std::to_string(part.count) + "; ";
  EXPECT_EQ(kinds, "embedding 1; layer, attention 6; layer, mamba 23; layer, experts 23; head 1; ");
}

TEST(ModelProgram, RefusesChipsOfARecurrence) {
  const auto error_of = [](const char* name, const StepOptions& options) {
    return write_programs(find(name), options).error().to_string();
  };
  EXPECT_EQ(error_of("codestral_mamba_7b", {.context = 8, .layout = {.tensor = 16}}),
            "codestral_mamba_7b: expected --tp that divides the 8 groups of heads, found 16\n");
  EXPECT_EQ(error_of("falcon_mamba_7b", {.context = 8, .layout = {.tensor = 2}}),
            "falcon_mamba_7b: expected --tp 1, found 2\n"
            "  hint: chips that divide the channels of Mamba-1 must add partial sums inside the layer\n");
}

// A token sees its chunk: of 8 192 tokens, the first of a chunk sees itself alone, the last all.
TEST(ModelProgram, CountsTheKeysOfAChunk) {
  ModelConfig llama = find("llama_4_scout_text");
  llama.window = 6;
  for (const auto& [new_tokens, context] :
       {std::pair<std::int64_t, std::int64_t>{1, 6}, {1, 7}, {1, 20}, {20, 20}, {5, 20}, {3, 7}, {7, 15}}) {
    std::int64_t pairs = 0;
    for (std::int64_t i = context - new_tokens; i < context; ++i)
      for (std::int64_t j = 0; j <= i; ++j) pairs += i / 6 == j / 6 ? 1 : 0;
    const auto text = write_layer_program(llama, {.batch = 2, .new_tokens = new_tokens, .context = context}, 0);
    EXPECT_EQ(count_flops(*text)["s"], 2 * 2 * 40 * 128 * pairs) << *text;
  }
  // Every fourth layer sees all tokens and has no positions.
  const auto full = write_layer_program(llama, {.context = 20}, 3);
  EXPECT_EQ(full->find("rotary"), std::string::npos) << *full;
  EXPECT_EQ(count_flops(*full)["s"], 2 * 40 * 128 * 20);
}

// Sparse attention: all heads see 2 048 tokens that an indexer of 32 heads of 128 chooses of all.
TEST(ModelProgram, ReadsTheTokensThatAnIndexerChooses) {
  auto flops = count_flops(*write_layer_program(find("glm_5"), {.context = 10000}, 5));
  EXPECT_EQ(flops["is"], 2 * 32 * 128 * 10000);
  EXPECT_EQ(flops["s"], 2 * 64 * 512 * 2048);
  flops = count_flops(*write_layer_program(find("glm_5"), {.context = 2000}, 5));
  EXPECT_EQ(flops["s"], 2 * 64 * 512 * 2000);
}

// Gemma 2 caps scores and logits, in all programs.
TEST(ModelProgram, CapsScoresAndLogits) {
  const std::string text = R"({"model_type": "gemma2", "hidden_size": 8, "intermediate_size": 12, "head_dim": 4,
 "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10, "sliding_window": 3,
 "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "hidden_activation": "gelu_pytorch_tanh"})";
  const auto whole = write_model_program(*parse_config(text, "config.json", "test"), {.context = 5});
  ASSERT_TRUE(whole);
  EXPECT_NE(whole->find("softmax(50 * tanh(s_0 * rsqrt(size(E)) / 50) over U)"), std::string::npos) << *whole;
  EXPECT_NE(whole->find("logits: bf16[B, V] = 30 * tanh(logits0 / 30)"), std::string::npos) << *whole;
}

}  // namespace
}  // namespace ridge::model
