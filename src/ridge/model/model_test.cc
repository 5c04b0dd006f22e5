// Counts of the shipped configs and of published reports, and errors of configs.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ridge/base/file.h"
#include "ridge/model/count.h"
#include "ridge/model/program.h"

namespace ridge::model {
namespace {

ModelCount count(const std::string& name, const CountOptions& options = {}) {
  const Result<ModelConfig> config = find_config(name);
  EXPECT_TRUE(config.ok()) << (config ? "" : config.error().to_string());
  if (!config) return {};
  const Result<ModelCount> counted = count_model(*config, options);
  EXPECT_TRUE(counted.ok()) << (counted ? "" : counted.error().to_string());
  return counted ? *counted : ModelCount{};
}

ModelCount count_text(const std::string& text, const CountOptions& options = {}) {
  const Result<ModelConfig> config = parse_config(text, "config.json", "test");
  EXPECT_TRUE(config.ok()) << (config ? "" : config.error().to_string());
  if (!config) return {};
  return *count_model(*config, options);
}

std::string error_of(const std::string& text) {
  const Result<ModelConfig> config = parse_config(text, "config.json", "test");
  return config ? "no error\n" : config.error().to_string();
}

constexpr const char* small_llama = R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 10})";

// Returns a small config with these keys and values; null removes a key.
std::string llama(const std::string& changed = "") {
  auto config = nlohmann::ordered_json::parse(small_llama);
  config.merge_patch(nlohmann::ordered_json::parse("{" + changed + "}"));
  return config.dump();
}

struct PublishedCount {
  const char* name;
  std::int64_t parameters, active_parameters, kv_bytes_per_token;
  std::int64_t state_bytes_per_sequence = 0;
};

// Parameters: safetensors of the published checkpoints, which agree with MaxText e591f30 (configs/models) and LitGPT
// 2685705 (config.py). GPT-3: the table 2.1 of its paper, whose text rounds to 175B. DeepSeek-V3: without the layer
// that predicts further tokens. Cache: bf16, a token in every layer.
constexpr PublishedCount published[] = {
    {"llama_2_7b", 6738415616, 6738415616, 524288},
    {"llama_2_13b", 13015864320, 13015864320, 819200},
    {"llama_2_70b", 68976648192, 68976648192, 327680},
    {"llama_3_8b", 8030261248, 8030261248, 131072},
    {"llama_3_70b", 70553706496, 70553706496, 327680},
    {"llama_3_1_405b", 405853388800, 405853388800, 516096},
    {"llama_3_2_1b", 1235814400, 1235814400, 32768},
    {"llama_3_2_3b", 3212749824, 3212749824, 114688},
    {"mixtral_8x7b", 46702792704, 12879925248, 131072},
    {"qwen2_5_0_5b", 494032768, 494032768, 12288},
    {"qwen2_5_1_5b", 1543714304, 1543714304, 28672},
    {"qwen2_5_3b", 3085938688, 3085938688, 36864},
    {"qwen2_5_7b", 7615616512, 7615616512, 57344},
    {"qwen2_5_14b", 14770033664, 14770033664, 196608},
    {"qwen2_5_32b", 32763876352, 32763876352, 262144},
    {"qwen2_5_72b", 72706203648, 72706203648, 327680},
    {"qwen3_0_6b", 596049920, 596049920, 114688},
    {"qwen3_1_7b", 1720574976, 1720574976, 114688},
    {"qwen3_4b", 4022468096, 4022468096, 147456},
    {"qwen3_8b", 8190735360, 8190735360, 147456},
    {"qwen3_14b", 14768307200, 14768307200, 163840},
    {"qwen3_32b", 32762123264, 32762123264, 262144},
    {"qwen3_30b_a3b", 30532122624, 3353032704, 98304},
    {"qwen3_235b_a22b", 235093634560, 22190763520, 192512},
    {"gemma_2_2b", 2614341888, 2614341888, 106496},
    {"gemma_2_9b", 9241705984, 9241705984, 344064},
    {"gemma_2_27b", 27227128320, 27227128320, 376832},
    {"gemma_3_1b", 999885952, 999885952, 26624},
    {"gemma_3_4b_text", 3880263168, 3880263168, 139264},
    {"gemma_3_12b_text", 11766034176, 11766034176, 393216},
    {"gemma_3_27b_text", 27009346304, 27009346304, 507904},
    {"gpt_3_175b", 174604259328, 174604259328, 4718592},
    {"deepseek_v3", 671026419200, 37552297472, 70272},
    {"deepseek_v3_1", 671026419200, 37552297472, 70272},
    // Published: codestral_mamba_7b 7 285 403 648, falcon_mamba_7b 7.27 B, phi_3_mini 3.82 B, mistral_small_24b
    // 23 572 403 200, gpt-oss 116.83 B and 20.91 B (model card), nemotron_3_nano 31.6 B and 3.6 B with the embedding,
    // mixtral_8x22b 141 B and 39 B, kimi_k2 1 T and 32 B, glm_5 744 B and 40 B, glm_4_5_air 106 B and 12 B without the
    // embedding, gemma_4_26b 25.2 B and 3.8 B, llama_4_maverick 17 B active. The exact numbers are sums of the tensors
    // that the checkpoints have, written in Python without this code; those of llama_4, gemma_4 and qwen3_5 leave
    // vision out.
    {"mixtral_8x22b", 140620634112, 39152031744, 229376},
    {"mistral_small_24b", 23572403200, 23572403200, 163840},
    {"phi_3_mini_4k", 3821079552, 3821079552, 393216},
    {"gpt_oss_20b", 20914757184, 4187440704, 49152},
    {"gpt_oss_120b", 116829156672, 5711982912, 73728},
    {"qwen3_coder_480b_a35b", 480154875392, 35474765312, 253952},
    {"kimi_k2", 1026408232448, 32861500928, 70272},
    {"glm_4_5_air", 106852251264, 13424129664, 188416},
    {"llama_4_scout_text", 107769861120, 17172894720, 196608},
    {"llama_4_maverick_text", 400711848960, 17184691200, 196608},
    {"gemma_4_26b_a4b_text", 25233141760, 3822530560, 225280},
    {"gemma_4_31b_text", 30697345280, 30697345280, 901120},
    // Each of 78 layers keeps 576 elements of the latent vector and 128 of the indexer's key.
    {"glm_5", 743911218432, 41784728832, 78 * (576 + 128) * 2},
    // Layers with a recurrence keep a state per sequence in f32, and 3 tokens of the convolution's inputs in bf16:
    // 36 x (32 x 128 x 128 x 4 + 3 x 8192 x 2) bytes, and so on.
    {"qwen3_next_80b_a3b", 79674391296, 3874929408, 24576, 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)},
    {"qwen3_5_35b_a3b_text", 34660610688, 3454988928, 20480, 30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)},
    {"qwen3_5_27b_text", 26895998464, 26895998464, 65536, 48 * (48 * 128 * 128 * 4 + 3 * 10240 * 2)},
    {"nemotron_3_nano_30b_a3b", 31577940288, 3580076352, 6144, 23 * (64 * 64 * 128 * 4 + 3 * 6144 * 2)},
    // Without a key for its format, Mamba's state has that of the activations.
    {"nemotron_h_56b", 56324350464, 56324350464, 40960, 54 * (256 * 64 * 256 * 2 + 3 * 20480 * 2)},
    {"codestral_mamba_7b", 7285403648, 7285403648, 0, 64 * (128 * 64 * 128 * 2 + 3 * 10240 * 2)},
    // With the vision encoder, which no token of a text uses: 423 060 336, 871 932 416, 576 388 336, 675 759 104 and
    // 575 743 536 parameters. The file of Gemma 4 has 60 more numbers, a factor for each layer.
    {"gemma_3_27b", 27432406640, 27009346304, 507904},
    {"llama_4_scout", 108641793536, 17172894720, 196608},
    {"qwen3_vl_8b", 8767123696, 8190735360, 147456},
    {"qwen2_vl_7b", 8291375616, 7615616512, 57344},
    {"gemma_4_31b", 31273088816, 30697345280, 901120},
    // With the encoder; a layer keeps keys and values of 1 500 vectors of each sequence.
    {"whisper_large_v3", 1543490560, 801623040, 163840, 32 * 2 * 1500 * 1280 * 2},
    {"falcon_mamba_7b", 7272665088, 7272665088, 0, 64 * (8192 * 16 * 2 + 3 * 8192 * 2)},
};

TEST(ModelCount, ShippedConfigsHaveThePublishedCounts) {
  EXPECT_EQ(std::size(published), shipped_names().size());
  for (const PublishedCount& model : published) {
    const ModelCount counted = count(model.name);
    EXPECT_EQ(counted.parameters, model.parameters) << model.name;
    EXPECT_EQ(counted.active_parameters, model.active_parameters) << model.name;
    EXPECT_EQ(counted.kv_bytes_per_token, model.kv_bytes_per_token) << model.name;
    EXPECT_EQ(counted.state_bytes_per_sequence, model.state_bytes_per_sequence) << model.name;
    if (counted.quantization.empty()) EXPECT_EQ(counted.weight_bytes, 2 * model.parameters) << model.name;
    EXPECT_EQ(counted.notes, std::vector<std::string>{}) << model.name;
    std::int64_t in_layers = 0, in_parts = 0;
    for (const LayerCount& layer : counted.layers) in_layers += layer.parameters;
    for (const PartCount& part : counted.parts) {
      if (part.layers > 0 && part.is_in_programs) in_parts += part.parameters;
      EXPECT_FALSE(part.keys.empty()) << model.name << " " << part.name;
    }
    EXPECT_EQ(in_layers, in_parts) << model.name;
  }
}

TEST(ModelCount, CountsEachPart) {
  const ModelCount mixtral = count("mixtral_8x7b");
  std::string parts;
  for (const PartCount& part : mixtral.parts)
    parts += part.name + " " + std::to_string(part.layers) + " " + std::to_string(part.parameters) + " " +
             std::to_string(part.active_parameters) + "\n";
  EXPECT_EQ(parts,
            "embedding 0 131072000 131072000\n"
            "attention 32 1342177280 1342177280\n"
            "router 32 1048576 1048576\n"
            "routed experts 32 45097156608 11274289152\n"
            "norms 32 262144 262144\n"
            "final norm 0 4096 4096\n"
            "head 0 131072000 131072000\n");
  EXPECT_EQ(mixtral.parts[3].keys, (std::vector<std::string>{"hidden_size", "intermediate_size", "num_local_experts",
                                                             "num_experts_per_tok", "num_hidden_layers"}));
  EXPECT_EQ(mixtral.keys[3].first, "kv_bytes_per_token");
  EXPECT_EQ(mixtral.keys[3].second, (std::vector<std::string>{"num_hidden_layers", "num_key_value_heads", "hidden_size",
                                                              "num_attention_heads"}));
}

TEST(ModelCount, CountsExpertsInMxfp4AndWindowsOfGptOss) {
  // 20.91 B parameters are published. Of each layer, 32 x (5760 + 2880) x 2880 elements take 4 bits, and one byte of
  // scale per 32 elements.
  const ModelCount counted = count("gpt_oss_20b", {.context = 8192, .batch = 32});
  EXPECT_EQ(counted.parameters, 20914757184);
  const std::int64_t quantized = 24ll * 32 * (5760 + 2880) * 2880;
  EXPECT_EQ(counted.scale_bytes, quantized / 32);
  EXPECT_EQ(counted.weight_bytes, quantized / 2 + quantized / 32 + 2 * (20914757184 - quantized));
  EXPECT_EQ(counted.kv_bytes_per_token, 24 * 2 * 8 * 64 * 2);
  // hf-mem #70: 12.00 GiB if the engine keeps every token in every layer; half the layers need only 128 tokens.
  EXPECT_EQ(counted.unwindowed_cache_bytes, 12ll << 30);
  EXPECT_EQ(counted.cache_bytes, (6ll << 30) + (6ll << 30) / 64);
}

TEST(ModelCount, AgreesWithCorrectedReportsOfCaches) {
  struct Report {
    const char* name;
    std::int64_t context;
    double gib;
  };
  // unsloth #4757, right figures: GiB of the cache at the model's longest context.
  for (const Report& report :
       {Report{"gemma_3_27b_text", 131072, 10.41}, {"deepseek_v3", 163840, 10.72}, {"qwen3_0_6b", 40960, 4.375}}) {
    const ModelCount counted = count(report.name, {.context = report.context});
    EXPECT_NEAR(static_cast<double>(*counted.cache_bytes) / 0x1p30, report.gib, 0.006) << report.name;
  }
  // LMCache #694: the latent vector is kept once, 512 + 64 elements per layer.
  EXPECT_EQ(count("deepseek_v3").kv_bytes_per_token, 61 * 576 * 2);
  // vllm-fit #2: multi-head attention keeps 2 x layers x heads x size.
  EXPECT_EQ(count("llama_2_7b").kv_bytes_per_token, 2 * 32 * 32 * 128 * 2);
  // accelerate #3379: 70 B parameters in f16 are some 140 GB.
  EXPECT_EQ(count("llama_3_70b", {.weight_dtype = DType::f16}).weight_bytes, 2 * 70553706496);
}

TEST(ModelCount, CountsTheLatentCacheOfANestedConfig) {
  // unsloth #4757: Kimi-K2.5 keeps 17.16 GiB for 262 144 tokens.
  const ModelCount kimi = count_text(R"({"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25",
 "media_placeholder_token_id": 163605, "tie_word_embeddings": false, "vision_config": {}, "text_config": {
 "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "aux_loss_alpha": 0.001, "ep_size": 1,
 "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
 "model_type": "kimi_k2", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 384,
 "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 64, "num_experts_per_tok": 8,
 "num_hidden_layers": 61, "num_key_value_heads": 64, "num_nextn_predict_layers": 0, "q_lora_rank": 1536,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid",
 "seq_aux": true, "tie_word_embeddings": false, "topk_group": 1, "topk_method": "noaux_tc", "v_head_dim": 128,
 "vocab_size": 163840}})",
                                     {.context = 262144});
  EXPECT_NEAR(static_cast<double>(*kimi.cache_bytes) / 0x1p30, 17.16, 0.005);
  EXPECT_EQ(kimi.parameters / 1'000'000'000, 1026) << "1 T is published";
  EXPECT_EQ(kimi.active_parameters / 1'000'000'000, 32) << "32 B is published";
}

TEST(ModelCount, TakesTheSizeOfHeadsFromTheConfig) {
  // Model-Optimizer #2482: Mistral-Small-24B has heads of 128, not 5120 / 32. Published: 23 572 403 200 parameters.
  const std::string mistral_small = R"({"architectures": ["MistralForCausalLM"], "head_dim": 128, "hidden_act": "silu",
 "hidden_size": 5120, "intermediate_size": 32768, "model_type": "mistral", "num_attention_heads": 32,
 "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": null, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "vocab_size": 131072})";
  EXPECT_EQ(count_text(mistral_small).parameters, 23572403200);
  EXPECT_EQ(count_text(mistral_small).kv_bytes_per_token, 2 * 40 * 8 * 128 * 2);
}

TEST(ModelCount, ReadsNestedConfigs) {
  const std::string nested = R"({"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
 "mm_tokens_per_image": 256, "model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "text_config": {
 "model_type": "gemma3_text", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 7, "head_dim": 4,
 "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10, "sliding_window": 3}})";
  const ModelCount counted = count_text(nested, {.context = 10, .batch = 2});
  EXPECT_EQ(counted.notes, std::vector<std::string>{"vision_config: this part is not counted"});
  EXPECT_EQ(counted.keys[3].second,
            (std::vector<std::string>{"text_config.num_hidden_layers", "text_config.num_key_value_heads",
                                      "text_config.head_dim"}));
  EXPECT_EQ(counted.parameters, 7 * (2 * 64 + 2 * 32 + 8 + 3 * 96 + 32) + 80 + 8);
  // Layer 5 is full; a token takes 16 bytes in a layer.
  EXPECT_EQ(counted.cache_bytes, 2 * (6 * 3 + 10) * 16);
  EXPECT_EQ(counted.unwindowed_cache_bytes, 2 * 7 * 10 * 16);
  EXPECT_EQ(error_of(R"({"text_config": {"model_type": "gemma3_text", "hidden_size": 8}, "model_type": "gemma3"})"),
            "config.json: text_config.vocab_size: expected a whole number from 1 to 268435456, found no such key\n"
            "  hint: ridge assumes no value; add the key\n");
}

TEST(ModelCount, CountsBiasesAndTies) {
  const std::int64_t plain = 2 * (2 * 64 + 2 * 32 + 3 * 96 + 16) + 2 * 80 + 8;
  EXPECT_EQ(count_text(llama()).parameters, plain);
  EXPECT_EQ(count_text(llama(R"("tie_word_embeddings": true)")).parameters, plain - 80);
  EXPECT_EQ(count_text(llama(R"("attention_bias": true)")).parameters, plain + 2 * (8 + 4 + 4 + 8));
  EXPECT_EQ(count_text(llama(R"("mlp_bias": true)")).parameters, plain + 2 * (12 + 12 + 8));
  EXPECT_EQ(count_text(llama(R"("head_dim": 3)")).parameters, plain - 2 * (2 * 64 + 2 * 32) + 2 * (2 * 96 + 2 * 48));
  EXPECT_EQ(count_text(llama(R"("num_key_value_heads": null)")).parameters, plain + 2 * 64) << "each head has its own";
}

// Returns the bytes of the weights of a llama with this quantization, less those of what is never quantized.
std::pair<std::int64_t, std::int64_t> quantized_bytes(const std::string& quantization) {
  const ModelCount counted = count_text(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 384,
 "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 10,
 "quantization_config": )" + quantization +
                                        "}");
  return {counted.weight_bytes - counted.scale_bytes - 2 * (2 * 2560 + 3 * 256), counted.scale_bytes};
}

TEST(ModelCount, CountsScalesOfQuantizedWeights) {
  using Bytes = std::pair<std::int64_t, std::int64_t>;
  // Matrices: 2 of 256 x 256, 2 of 128 x 256, 2 of 384 x 256, 1 of 256 x 384 (rows x columns).
  const std::int64_t elements = 2 * 65536 + 2 * 32768 + 3 * 98304, rows = 512 + 256 + 768 + 256;
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"),
            (Bytes{elements, 4 * (2 * 4 + 2 * 2 + 3 * 6)}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "fp8", "weight_block_size": [100, 128]})"),
            (Bytes{elements, 4 * (2 * 3 * 2 + 2 * 2 * 2 + 2 * 4 * 2 + 3 * 3)}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "fp8"})"), (Bytes{elements, 4 * 7}));
  const std::int64_t groups = 2 * (512 + 256 + 768) + 3 * 256;  // of 128 inputs, in all rows
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
 "version": "GEMM"})"),
            (Bytes{elements / 2, groups * 2 + groups / 2}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "gptq", "bits": 8, "group_size": 128})"),
            (Bytes{elements, groups * 3 + 4 * (6 * 256 + 384)}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "gptq", "bits": 2, "group_size": -1})"),
            (Bytes{elements / 4, rows * 2 + rows / 4 + 4 * (6 * 256 + 384)}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"),
            (Bytes{elements / 2, 4 * elements / 64}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
 "bnb_4bit_use_double_quant": true})"),
            (Bytes{elements / 2, elements / 64 + 4 * (2 * 4 + 2 * 2 + 3 * 6) + 4 * 7}));
  EXPECT_EQ(quantized_bytes(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})"), (Bytes{elements, 4 * rows}));
}

TEST(ModelConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(error_of(llama(R"("hiden_size": 8)")),
            "config.json: unknown key 'hiden_size' with value 8; model_type 'llama' has no such key\n"
            "  hint: did you mean 'hidden_size'?\n");
  EXPECT_EQ(error_of(llama(R"("n_routed_experts": 8)")),
            "config.json: unknown key 'n_routed_experts' with value 8; model_type 'llama' has no such key\n"
            "  hint: it may change the architecture, so the model is not counted\n");
  EXPECT_EQ(error_of(llama(R"("torch_dtype": "bfloat16", "eos_token_id": [1, 2], "rope_theta": 1e4)")), "no error\n");
  EXPECT_EQ(error_of(R"({"model_type": "lama"})"),
            "config.json: model_type: expected one of llama, llama4_text, mistral, mixtral, phi3, qwen2, qwen2_vl, "
            "qwen2_vl_text, qwen3, qwen3_moe, qwen3_vl_text, qwen3_vl_moe_text, qwen3_next, qwen3_5_text, "
            "qwen3_5_moe_text, gemma2, gemma3_text, gemma4_text, gpt_oss, gpt2, whisper, glm4_moe, deepseek_v3, "
            "deepseek_v32, "
            "kimi_k2, glm_moe_dsa, nemotron_h, mamba2, falcon_mamba, found 'lama'\n"
            "  hint: did you mean 'llama'?\n");
  for (const char* other : {"gemma3n_text", "jamba", "t5"})
    EXPECT_NE(error_of(std::string(R"({"model_type": ")") + other + "\"}").find(std::string("found '") + other),
              std::string::npos);
  EXPECT_EQ(error_of(llama(R"("architectures": ["LlamaForSequenceClassification"])")),
            "config.json: architectures: expected a class that ends with ForCausalLM, found "
            "'LlamaForSequenceClassification'\n  hint: heads of other classes are not counted\n");
  EXPECT_EQ(error_of(llama(R"("quantization_config": {"quant_method": "fp9"})")),
            "config.json: quantization_config.quant_method: expected fp8, gptq, awq, mxfp4, bitsandbytes or "
            "compressed-tensors, found 'fp9'\n");
  EXPECT_EQ(error_of(llama(R"("quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 4})")),
            "config.json: quantization_config.bits: expected matrix sides that are multiples of 8, which fill 32 bits, "
            "found 12\n");
}

TEST(ModelConfig, RefusesWrongValues) {
  EXPECT_EQ(error_of("{\"hidden_size\": 8,\n \"vocab_size\": 8, }"),
            "config.json:2:19: expected JSON, found something else\n"
            "   \"vocab_size\": 8, }\n"
            "                    ^\n"
            "  hint: config.json must be one JSON object\n");
  EXPECT_EQ(error_of(R"({"a": {"b": 1}, "c": {"b": 1, "b": 2}})"),
            "config.json: expected each key once, found 'b' twice\n");
  EXPECT_EQ(error_of("{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
            "config.json: expected at most 32 nested values, found more\n");
  EXPECT_EQ(error_of("[]"), "config.json: expected a JSON object, found array\n");
  EXPECT_EQ(error_of("{}"),
            "config.json: model_type: expected a string, found no such key\n"
            "  hint: ridge assumes no value; add the key\n");
  EXPECT_EQ(error_of(llama(R"("hidden_size": "8")")),
            "config.json: hidden_size: expected a whole number from 1 to 16777216, found \"8\"\n");
  EXPECT_EQ(error_of(llama(R"("vocab_size": 18446744073709551615)")),
            "config.json: vocab_size: expected a whole number from 1 to 268435456, found 18446744073709551615\n");
  EXPECT_EQ(error_of(llama(R"("tie_word_embeddings": 1)")),
            "config.json: tie_word_embeddings: expected true or false, found 1\n");
  EXPECT_EQ(error_of(llama(R"("num_key_value_heads": 3)")),
            "config.json: num_key_value_heads: expected a divisor of num_attention_heads, which is 4, found 3\n");
  EXPECT_EQ(error_of(llama(R"("num_attention_heads": 6)")),
            "config.json: num_attention_heads: expected a divisor of hidden_size, which is 8, found 6\n"
            "  hint: if heads have another size, head_dim says so\n");
}

// Returns a config of model_type qwen3 with five layers.
std::string qwen(const std::string& more) {
  return R"({"model_type": "qwen3", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 5, "head_dim": 4,
 "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 10)" +
         more + "}";
}

std::string sliding_layers(const std::string& text) {
  const Result<ModelConfig> config = parse_config(text, "config.json", "test");
  std::string out;
  if (config)
    for (const LayerConfig& layer : config->layers) out += layer.is_sliding ? 's' : 'f';
  return config ? out : config.error().to_string();
}

TEST(ModelConfig, DecidesWhichLayersSlide) {
  EXPECT_EQ(sliding_layers(qwen("")), "fffff");
  EXPECT_EQ(sliding_layers(qwen(R"(, "sliding_window": 9, "use_sliding_window": false, "max_window_layers": 2)")),
            "fffff");
  EXPECT_EQ(sliding_layers(qwen(R"(, "sliding_window": 9, "use_sliding_window": true, "max_window_layers": 2)")),
            "ffsss");
  EXPECT_EQ(sliding_layers(qwen(R"(, "sliding_window": 9, "use_sliding_window": true, "layer_types":
 ["full_attention", "sliding_attention", "full_attention", "full_attention", "sliding_attention"])")),
            "fsffs");
  EXPECT_EQ(sliding_layers(qwen(R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention",
 "full_attention", "full_attention"])")),
            "config.json: sliding_window: expected the window of the layers with sliding attention, found none\n"
            "  hint: use_sliding_window must be true as well\n");
  EXPECT_EQ(sliding_layers(qwen(R"(, "layer_types": ["full_attention"])")),
            "config.json: layer_types: expected 5 entries as in num_hidden_layers, found 1\n");
  EXPECT_EQ(sliding_layers(qwen(R"(, "layer_types": ["full_attention", "linear_attention", "full_attention",
 "full_attention", "full_attention"])")),
            "config.json: layer_types: expected full_attention or sliding_attention for layer 1, found "
            "'linear_attention'\n  hint: model_type 'qwen3' has no other layers\n");
  EXPECT_EQ(find_config("gpt_oss_20b")->layers[0].is_sliding, true);
  EXPECT_EQ(find_config("gpt_oss_20b")->layers[1].is_sliding, false);
  EXPECT_EQ(find_config("gemma_2_2b")->layers.front().is_sliding, true);
  EXPECT_EQ(find_config("gemma_3_1b")->layers[5].is_sliding, false);
}

TEST(ModelConfig, DecidesWhichLayersHaveExperts) {
  const std::string text = R"({"model_type": "qwen3_moe", "hidden_size": 8, "intermediate_size": 12,
 "moe_intermediate_size": 2, "num_hidden_layers": 6, "head_dim": 4, "num_attention_heads": 2, "num_key_value_heads": 2,
 "vocab_size": 10, "num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 2, "mlp_only_layers": [3]})";
  std::string experts;
  for (const LayerCount& layer : count_text(text).layers) experts += layer.kind.has_experts ? 'e' : 'd';
  EXPECT_EQ(experts, "deddde");
  std::string wrong = text;
  wrong.replace(wrong.find("\"num_experts_per_tok\": 2"), 24, "\"num_experts_per_tok\": 5");
  EXPECT_EQ(error_of(wrong), "config.json: num_experts_per_tok: expected at most 4 as in num_experts, found 5\n");
}

TEST(ModelConfig, SurvivesEveryWrongValue) {
  const auto values = nlohmann::ordered_json::parse(
      R"([null, -1, 0, 1, 3, 16777216, 18446744073709551615, 1.5, "x", "", [], [1, "x"], {}, {"a": [null]}, true])");
  int refused = 0;
  for (const std::string& name : shipped_names()) {
    const auto config =
        nlohmann::ordered_json::parse(*read_file(std::string(RIDGE_SOURCE_DIR) + "/models/" + name + ".json"));
    for (const auto& [key, value] : config.items())
      for (const auto& wrong : values) {
        auto changed = config;
        changed[key] = wrong;
        const Result<ModelConfig> parsed = parse_config(changed.dump(), "config.json", "test");
        if (parsed) {
          (void)count_model(*parsed, {.context = 4096, .batch = 4096});
          for (const std::int64_t new_tokens : {1, 5})
            (void)write_programs(*parsed, {.new_tokens = new_tokens, .context = 64, .layout = {.tensor = 2}});
        } else {
          ++refused;
          EXPECT_TRUE(parsed.error().to_string().starts_with("config.json: ")) << parsed.error().to_string();
        }
      }
  }
  EXPECT_GT(refused, 3000);
}

TEST(ModelConfig, FindsNamesFilesAndFolders) {
  EXPECT_EQ(find_config("Llama-3.1-405B")->name, "llama_3_1_405b");
  const auto folder = std::filesystem::temp_directory_path() / ("ridge_model_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "tiny");
  std::ofstream(folder / "tiny/config.json") << llama();
  EXPECT_EQ(find_config(folder / "tiny")->name, "tiny");
  EXPECT_EQ(find_config(folder / "tiny/config.json")->name, "tiny");
  EXPECT_EQ(find_config(folder / "none.json").error().kind, ErrorKind::input);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(find_config("llama_3_7b").error().to_string(),
            "unknown model 'llama_3_7b'; expected a name of models/, a config.json or its folder\n"
            "  hint: did you mean llama_2_7b?\n");
}

TEST(ModelCount, RefusesOptionsOutOfRange) {
  const ModelConfig config = *find_config("llama_3_8b");
  EXPECT_EQ(count_model(config, {.weight_dtype = DType::mxfp4}).error().to_string(),
            "expected a format of at most 32 bits without block scales for --dtype, found mxfp4\n"
            "  hint: block scales of weights are read from quantization_config\n");
  EXPECT_EQ(count_model(config, {.context = 0}).error().message,
            "expected --context from 1 to 4294967296 tokens, found 0");
  EXPECT_EQ(count_model(config, {.context = 1, .batch = 0}).error().message,
            "expected --batch from 1 to 16777216 sequences, found 0");
  EXPECT_EQ(count_model(config, {.context = 1ll << 32, .batch = 1 << 24}).error().message,
            "llama_3_8b: expected at most 2^60 bytes of cache, found up to 1.89e+22");
  EXPECT_EQ(count_model(*parse_config(llama(R"("hidden_size": 16777216, "intermediate_size": 16777216,
 "num_hidden_layers": 4096)"),
                                      "", "huge"))
                .error()
                .message,
            "huge: expected at most 2^53 parameters, found some 8.07e+18");
}

}  // namespace
}  // namespace ridge::model
