// Counts that users reported as wrong in other calculators, each with the report and the right number.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/base/file.h"
#include "ridge/model/count.h"

namespace ridge::model {
namespace {

ModelCount count_shipped(const std::string& name, const CountOptions& options = {}) {
  const Result<ModelConfig> config = find_config(name);
  EXPECT_TRUE(config.ok()) << (config ? "" : config.error().to_string());
  if (!config) return {};
  const Result<ModelCount> counted = count_model(*config, options);
  EXPECT_TRUE(counted.ok()) << (counted ? "" : counted.error().to_string());
  return counted ? *counted : ModelCount{};
}

const CacheCount& find_cache(const ModelCount& count, std::string_view kind) {
  for (const CacheCount& cache : count.caches)
    if (cache.kind == kind) return cache;
  ADD_FAILURE() << kind;
  static const CacheCount none;
  return none;
}

double to_gib(std::int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; }

TEST(ModelReports, HalfOfGptOssSlides) {
  // hf-mem #60: gpt-oss-120b keeps 36 x 2 x 8 x 64 x 2 bytes for its first token, not those of 18 layers.
  EXPECT_EQ(count_shipped("gpt_oss_120b").kv_bytes_per_token, 73728);
  // With windows of 128 tokens, 18 layers keep no more; engines that pad windows to whole caches keep all.
  const ModelCount counted = count_shipped("gpt_oss_120b", {.context = 131072});
  EXPECT_EQ(counted.cache_bytes, 18ll * 2048 * (131072 + 128));
  EXPECT_EQ(counted.unwindowed_cache_bytes, 73728ll * 131072);
}

TEST(ModelReports, FullLayersOfGemma4HaveOtherHeads) {
  // hf-mem #61: gemma-4-31B. 50 sliding layers keep 16 heads of 256, 10 full layers 4 of 512: 901 120 bytes a token.
  // The engine of the report gives each layer the pages of the largest: 60 x 16 384 = 983 040.
  const ModelCount large = count_shipped("gemma_4_31b_text");
  EXPECT_EQ(large.kv_bytes_per_token, 50 * 16384 + 10 * 8192);
  std::int64_t largest = 0;
  for (const LayerCount& layer : large.layers) largest = std::max(largest, layer.cache_bytes_per_token);
  EXPECT_EQ(largest * static_cast<std::int64_t>(large.layers.size()), 983040);
  // ollama #16958: gemma-4-26B-A4B, GB at 4k, 8k, 32k and 128k tokens. The engine of the report keeps 512 tokens of a
  // batch more than the window in 25 layers of 8 192 bytes.
  const std::pair<std::int64_t, double> reported[] = {{4096, 0.40}, {8192, 0.48}, {32768, 0.99}, {131072, 3.00}};
  for (const auto& [context, gigabytes] : reported) {
    const ModelCount counted = count_shipped("gemma_4_26b_a4b_text", {.context = context});
    EXPECT_EQ(counted.cache_bytes, 25 * 8192 * 1024 + 5 * 4096 * context);
    EXPECT_NEAR(static_cast<double>(*counted.cache_bytes + 25 * 8192 * 512) / 1e9, gigabytes, 0.006) << context;
  }
}

TEST(ModelReports, WindowsOfGemma4DecideHowManyTokensFit) {
  // vLLM #43308: some 50 GiB hold 55 000 tokens of gemma-4-31B in an engine that keeps every token in pages of the
  // largest layer, and ten times more in one that drops those before a window. The text has both.
  const double free = 50 * 0x1p30;
  EXPECT_NEAR(free / 983040, 55000, 1000);
  const ModelCount windows = count_shipped("gemma_4_31b_text", {.context = 525000});
  EXPECT_EQ(windows.cache_bytes, 10ll * 8192 * 525000 + 50ll * 16384 * 1024);
  EXPECT_LT(static_cast<double>(*windows.cache_bytes), free);
  EXPECT_GT(static_cast<double>(*windows.unwindowed_cache_bytes), 8 * free);
}

TEST(ModelReports, HeadsHaveTheSizeThatTheFileGives) {
  // Model-Optimizer #2482: gpt-oss-20b has heads of 64, not 2880 / 64; Gemma-3-12B has heads of 256, not 3840 / 16.
  EXPECT_EQ(count_shipped("gpt_oss_20b").kv_bytes_per_token, 24 * 2 * 8 * 64 * 2);
  EXPECT_EQ(count_shipped("gemma_3_12b_text").kv_bytes_per_token, 48 * 2 * 8 * 256 * 2);
}

TEST(ModelReports, MemoryHoldsAllParametersOfQwen3_5) {
  // llmfit #230: Qwen3.5-122B-A10B in 4-bit files of 4.65 bits per weight has 70 to 75 GB, not 33. Published: 122 B, of
  // which a token uses 10 B.
  const std::string text = R"({"model_type": "qwen3_5_moe_text", "hidden_size": 3072, "num_hidden_layers": 48,
 "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320, "num_experts": 256,
 "num_experts_per_tok": 8, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024,
 "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
 "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "tie_word_embeddings": false})";
  const auto config = parse_config(text, "config.json", "test");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  const ModelCount counted = *count_model(*config);
  EXPECT_NEAR(static_cast<double>(counted.parameters) / 1e9, 122, 1);
  EXPECT_NEAR(static_cast<double>(counted.active_parameters) / 1e9, 10, 0.5);
  const double file_bytes = static_cast<double>(counted.parameters) * 4.65 / 8;
  EXPECT_TRUE(file_bytes > 70e9 && file_bytes < 75e9) << file_bytes;
}

TEST(ModelReports, ThreeOfFourLayersOfQwen3_5KeepAState) {
  // gguf-parser #28: of 40 layers, 10 keep keys and values of 2 heads of 256.
  EXPECT_EQ(count_shipped("qwen3_5_35b_a3b_text").kv_bytes_per_token, 10 * 2 * 2 * 256 * 2);
  // unsloth #4757 and lmstudio #1862: Qwen3.5-27B and 3.6-27B keep 16 GiB for 262 144 tokens, in 16 of 64 layers.
  const ModelCount counted = count_shipped("qwen3_5_27b_text", {.context = 262144});
  EXPECT_EQ(find_cache(counted, "full").bytes, 16ll << 30);
  EXPECT_EQ(find_cache(counted, "linear").layers, 48);
  // lmstudio #1862: 598.5 MiB of state, which is that of the engine's 4 sequences with the convolution's inputs in f32.
  const ModelCount wide = count_shipped("qwen3_5_27b_text", {.weight_dtype = DType::f32, .context = 1, .batch = 4});
  EXPECT_EQ(find_cache(wide, "linear").bytes, static_cast<std::int64_t>(598.5 * 0x1p20));
  // With weights of 8.5 bits, a common 8-bit file, these are some 47 GB in all, not 75.
  const double weights = static_cast<double>(counted.parameters) * 8.5 / 8;
  EXPECT_NEAR(weights + 0x1p34 + 598.5 * 0x1p20, 47e9, 1e9);
}

TEST(ModelReports, LatentVectorsAreKeptOnce) {
  // unsloth #4757: GiB at the longest context. The report counts GLM-5's layer that predicts further tokens as its
  // 79th, and no keys of the indexer.
  EXPECT_NEAR(to_gib(*count_shipped("deepseek_v3_1", {.context = 163840}).cache_bytes), 10.72, 0.005);
  const ModelCount glm = count_shipped("glm_5", {.context = 202752});
  EXPECT_NEAR(to_gib(*find_cache(glm, "latent").bytes) * 79 / 78, 17.18, 0.005);
  EXPECT_EQ(find_cache(glm, "indexer").bytes, 78ll * 128 * 2 * 202752);
}

TEST(ModelReports, ReadsPackedIntegersOfExperts) {
  // Kimi K2.5: integers of 4 bits with a bf16 scale for 32, in routed experts alone; 594 GB are published.
  const std::string text = R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2", "hidden_size": 7168,
 "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
 "vocab_size": 163840, "moe_intermediate_size": 2048, "n_routed_experts": 384, "n_shared_experts": 1,
 "num_experts_per_tok": 8, "first_k_dense_replace": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "bad_words_ids": null, "do_sample": false,
 "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "kv_cache_scheme": null,
 "quantization_status": "compressed", "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
 "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
 "num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32}}}}}})";
  const auto config = parse_config(text, "config.json", "test");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  const ModelCount counted = *count_model(*config);
  const std::int64_t experts = 60ll * 384 * 3 * 7168 * 2048;
  EXPECT_EQ(counted.scale_bytes, 2 * experts / 32);
  EXPECT_EQ(counted.weight_bytes, experts / 2 + 2 * experts / 32 + 2 * (1026408232448 - experts));
  EXPECT_NEAR(static_cast<double>(counted.weight_bytes) / 1e9, 594, 0.5);
  std::string wrong = text;
  wrong.replace(wrong.find("\"int\""), 5, "\"float\"");
  EXPECT_EQ(parse_config(wrong, "config.json", "test").error().to_string(),
            "config.json: text_config.quantization_config.config_groups.group_0.weights.type: expected int, found "
            "'float'\n");
  wrong = text;
  wrong.replace(wrong.find(R"("re:.*self_attn.*", )"), 20, "");
  EXPECT_EQ(parse_config(wrong, "config.json", "test").error().to_string(),
            "config.json: text_config.quantization_config.ignore: expected lm_head and routers, or all matrices but "
            "those of experts, found 're:.*shared_experts.*'\n  hint: other matrices cannot be left out yet\n");
}

TEST(ModelReports, ExpertsHaveAWidthOfTheirOwn) {
  // inference-sim #561: DeepSeek-V3's experts have moe_intermediate_size = 2048 columns, a ninth of intermediate_size.
  for (const PartCount& part : count_shipped("deepseek_v3").parts)
    if (part.name == "routed experts") EXPECT_EQ(part.parameters, 58ll * 256 * 3 * 7168 * 2048);
  // llmfit #497: memory holds all parameters. 4.65 bits each, a common 4-bit file, are some 390 GB.
  EXPECT_NEAR(static_cast<double>(count_shipped("deepseek_v3").parameters) * 4.65 / 8 / 1e9, 390, 1);
  // vllm-fit #27: Mixtral-8x7B has some 47 B parameters with all its experts and a head of its own.
  EXPECT_EQ(count_shipped("mixtral_8x7b").parameters, 46702792704);
}

TEST(ModelReports, ReadsPublishedFilesOfMamba) {
  // Python writes Infinity, which JSON does not have.
  const std::string text = R"({"model_type": "mamba2", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10,
 "expand": 2, "num_heads": 4, "head_dim": 4, "n_groups": 2, "state_size": 3, "conv_kernel": 4, "hidden_act": "silu",
 "time_step_limit": [0.0, Infinity], "chunk_size": 256, "rms_norm": true, "note": "Infinity"})";
  const auto error = parse_config(text, "config.json", "test");
  EXPECT_EQ(error.error().to_string(),
            "config.json: unknown key 'note' with value \"Infinity\"; model_type 'mamba2' has no such key\n"
            "  hint: it may change the architecture, so the model is not counted\n");
  std::string known = text;
  known.replace(known.find(R"(, "note": "Infinity")"), 20, "");
  const auto config = parse_config(known, "config.json", "test");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  // Per layer: 8 x (16 + 28 + 4) in, 28 x 4 + 28 of the convolution, 3 x 4, a norm of 16, 16 x 8 out, a norm of 8.
  EXPECT_EQ(count_model(*config)->parameters, 2 * 80 + 8 + 2 * (384 + 140 + 12 + 16 + 128 + 8));
}

TEST(ModelReports, CountsVisionEncoders) {
  // google/gemma-3-4b-it: 4 300 079 472 parameters are published; the language model has 3 880 263 168.
  const std::string gemma = R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152, "image_size": 896,
 "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
 "patch_size": 14, "vision_use_head": false}, "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
 "intermediate_size": 10240, "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
 "head_dim": 256, "vocab_size": 262208, "sliding_window": 1024}})";
  const auto config = parse_config(gemma, "config.json", "test");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  const ModelCount counted = *count_model(*config);
  EXPECT_EQ(counted.parameters, 4300079472);
  EXPECT_EQ(counted.active_parameters, 3880263168) << "no token of a text uses the encoder";
  EXPECT_EQ(counted.weight_bytes, 2 * 4300079472);
  EXPECT_EQ(counted.notes, std::vector<std::string>{});
  // Qwen/Qwen3-VL-8B-Instruct: 8 767 123 696 are published; the language model is that of Qwen3 8B.
  const std::string qwen = R"({"model_type": "qwen3_vl", "tie_word_embeddings": false, "vision_config": {
 "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "in_channels": 3, "intermediate_size": 4304,
 "model_type": "qwen3_vl", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 4096, "patch_size": 16,
 "spatial_merge_size": 2, "temporal_patch_size": 2}, "text_config": {"model_type": "qwen3_vl_text",
 "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
 "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}})";
  const auto vision = parse_config(qwen, "config.json", "test");
  ASSERT_TRUE(vision.ok()) << vision.error().to_string();
  EXPECT_EQ(count_model(*vision)->parameters, 8767123696);
  std::string wrong = qwen;
  wrong.replace(wrong.find("\"depth\": 27"), 11, "\"depht\": 27");
  EXPECT_EQ(parse_config(wrong, "config.json", "test").error().to_string(),
            "config.json: vision_config.depth: expected a whole number from 1 to 4096, found no such key\n"
            "  hint: ridge assumes no value; add the key\n");
}

TEST(ModelReports, RefusesEncodersThatContradictThemselves) {
  const auto error_of = [](const std::string& name, const std::string& from, const std::string& to) {
    std::string text = *read_file(fmt::format("{}/models/{}.json", RIDGE_SOURCE_DIR, name));
    text.replace(text.rfind(from), from.size(), to);
    const auto config = parse_config(text, "config.json", "test");
    return config ? "no error" : config.error().to_string();
  };
  EXPECT_EQ(error_of("qwen2_vl_7b", "\"hidden_size\": 3584", "\"hidden_size\": 3072"),
            "config.json: vision_config.hidden_size: expected 3584 as hidden_size of the language model, found 3072\n");
  EXPECT_EQ(error_of("qwen2_vl_7b", "\"spatial_patch_size\": 14", "\"spatial_patch_size\": 16"),
            "config.json: vision_config.spatial_patch_size: expected 14 as in vision_config.patch_size\n");
  EXPECT_EQ(error_of("gemma_4_31b", "\"head_dim\": 72", "\"head_dim\": 64"),
            "config.json: vision_config.head_dim: expected 72 as vision_config.hidden_size over "
            "vision_config.num_attention_heads, found 64\n");
  EXPECT_EQ(error_of("gemma_4_31b", "\"num_key_value_heads\": 16", "\"num_key_value_heads\": 8"),
            "config.json: vision_config.num_key_value_heads: expected 16 as in vision_config.num_attention_heads\n");
  EXPECT_EQ(error_of("gemma_4_31b", "\"use_clipped_linears\": false", "\"use_clipped_linears\": true"),
            "config.json: vision_config.use_clipped_linears: expected false, found true\n"
            "  hint: such matrices of an encoder are not counted yet\n");
}

std::string hybrid_error(const std::string& changed) {
  std::string text = R"({"model_type": "nemotron_h", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 3,
 "hybrid_override_pattern": "M*-", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
 "mamba_num_heads": 4, "mamba_head_dim": 4, "n_groups": 2, "ssm_state_size": 3, "conv_kernel": 4, "vocab_size": 10)";
  const auto config = parse_config(text + changed + "}", "config.json", "test");
  return config ? "no error" : config.error().to_string();
}

TEST(ModelReports, RefusesWrongSizesOfRecurrentLayers) {
  EXPECT_EQ(hybrid_error(""), "no error");
  EXPECT_EQ(hybrid_error(R"(, "layers_block_type": ["mamba", "attention", "mlp"])"), "no error");
  EXPECT_EQ(hybrid_error(R"(, "layers_block_type": ["mamba", "attention"])"),
            "config.json: hybrid_override_pattern: expected M* as in layers_block_type, found 'M*-'\n");
  EXPECT_EQ(hybrid_error(R"(, "layers_block_type": ["mamba", "attention", "rnn"])"),
            "config.json: layers_block_type: expected mamba, attention, mlp or moe for layer 2, found 'rnn'\n");
  EXPECT_EQ(hybrid_error(R"(, "mamba_ssm_cache_dtype": "int8")"),
            "config.json: mamba_ssm_cache_dtype: expected float32, bfloat16 or float16, found 'int8'\n");
  const std::string delta = R"({"model_type": "qwen3_next", "hidden_size": 8, "num_hidden_layers": 4, "vocab_size": 10,
 "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 2,
 "linear_num_value_heads": 3, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4,
 "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "shared_expert_intermediate_size": 4})";
  EXPECT_EQ(parse_config(delta, "config.json", "test").error().to_string(),
            "config.json: linear_num_value_heads: expected a multiple of linear_num_key_heads, which is 2, found 3\n");
}

}  // namespace
}  // namespace ridge::model
