#include "ridge/model/families.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "ridge/base/string_util.h"

namespace ridge::model {
namespace {

constexpr std::array<FamilyConventions, 29> families{{
    {.model_type = "llama",
     .has_attention_bias_key = true,
     .has_feed_forward_bias_key = true,
     .shares_heads_by_default = true},
    {.model_type = "llama4_text",
     .window = WindowRule::chunked,
     .default_pattern = 4,
     .experts = ExpertRule::interleaved,
     .has_attention_bias_key = true,
     .has_fixed_head_size = true},
    {.model_type = "mistral", .window = WindowRule::all},
    {.model_type = "mixtral", .window = WindowRule::all, .experts = ExpertRule::all_layers},
    {.model_type = "phi3", .window = WindowRule::all},
    {.model_type = "qwen2", .window = WindowRule::switched, .has_qkv_bias = true},
    {.model_type = "qwen2_vl", .window = WindowRule::switched, .has_qkv_bias = true},
    {.model_type = "qwen2_vl_text", .window = WindowRule::switched, .has_qkv_bias = true},
    {.model_type = "qwen3",
     .window = WindowRule::switched,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_fixed_head_size = true},
    {.model_type = "qwen3_moe",
     .window = WindowRule::switched,
     .experts = ExpertRule::sparse_step,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_fixed_head_size = true},
    {.model_type = "qwen3_vl_text", .has_attention_bias_key = true, .has_qk_norm = true, .has_fixed_head_size = true},
    {.model_type = "qwen3_vl_moe_text",
     .experts = ExpertRule::sparse_step,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_fixed_head_size = true},
    {.model_type = "qwen3_next",
     .experts = ExpertRule::sparse_step,
     .recurrent = Mixer::gated_delta,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_shared_gate = true,
     .has_output_gate = true,
     .has_fixed_head_size = true},
    {.model_type = "qwen3_5_text",
     .recurrent = Mixer::gated_delta,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_output_gate = true,
     .has_fixed_head_size = true},
    {.model_type = "qwen3_5_moe_text",
     .experts = ExpertRule::sparse_step,
     .recurrent = Mixer::gated_delta,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_shared_gate = true,
     .has_output_gate = true,
     .has_fixed_head_size = true},
    {.model_type = "gemma2",
     .window = WindowRule::pattern,
     .default_pattern = 2,
     .norms_per_layer = 4,
     .is_tied_by_default = true,
     .has_attention_bias_key = true,
     .has_fixed_head_size = true},
    {.model_type = "gemma3_text",
     .window = WindowRule::pattern,
     .default_pattern = 6,
     .norms_per_layer = 4,
     .is_tied_by_default = true,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_fixed_head_size = true},
    {.model_type = "gemma4_text",
     .window = WindowRule::pattern,
     .default_pattern = 6,
     .experts = ExpertRule::switched,
     .norms_per_layer = 4,
     .is_tied_by_default = true,
     .has_attention_bias_key = true,
     .has_qk_norm = true,
     .has_fixed_head_size = true},
    {.model_type = "gpt_oss",
     .window = WindowRule::pattern,
     .default_pattern = 2,
     .experts = ExpertRule::all_layers,
     .has_attention_bias_key = true,
     .has_fixed_head_size = true},
    {.model_type = "gpt2", .is_tied_by_default = true, .shares_heads_by_default = true},
    {.model_type = "whisper", .norms_per_layer = 3, .is_tied_by_default = true, .shares_heads_by_default = true},
    {.model_type = "glm4_moe",
     .experts = ExpertRule::first_dense,
     .has_attention_bias_key = true,
     .has_output_bias = false,
     .has_qk_norm_key = true,
     .has_fixed_head_size = true},
    {.model_type = "deepseek_v3", .experts = ExpertRule::first_dense, .has_latent_attention = true},
    {.model_type = "deepseek_v32",
     .experts = ExpertRule::first_dense,
     .has_latent_attention = true,
     .has_indexer = true},
    {.model_type = "kimi_k2", .experts = ExpertRule::first_dense, .has_latent_attention = true},
    {.model_type = "glm_moe_dsa",
     .experts = ExpertRule::first_dense,
     .has_latent_attention = true,
     .has_indexer = true},
    {.model_type = "nemotron_h",
     .experts = ExpertRule::by_pattern,
     .norms_per_layer = 1,
     .recurrent = Mixer::mamba2,
     .has_attention_bias_key = true,
     .has_feed_forward_bias_key = true,
     .has_fixed_head_size = true},
    {.model_type = "mamba2", .norms_per_layer = 1, .recurrent = Mixer::mamba2, .has_attention = false},
    {.model_type = "falcon_mamba", .norms_per_layer = 1, .recurrent = Mixer::mamba1, .has_attention = false},
}};

}  // namespace

Result<const FamilyConventions*> find_family(KeyReader& reader) {
  const std::string model_type = reader.read_text("model_type");
  RIDGE_TRY_STATUS(reader.status());
  std::vector<std::string> names;
  for (const FamilyConventions& family : families) {
    if (family.model_type == model_type) return &family;
    names.emplace_back(family.model_type);
  }
  const std::string nearest = find_nearest(model_type, names);
  reader.fail("model_type",
              fmt::format("expected one of {}, found '{}'", fmt::join(names, ", "), make_printable(model_type)),
              nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
  return reader.status().error();
}

std::map<std::string, std::string, std::less<>> aliases_of(std::string_view model_type) {
  if (model_type == "gpt2")
    return {{"hidden_size", "n_embd"},
            {"num_hidden_layers", "n_layer"},
            {"num_attention_heads", "n_head"},
            {"intermediate_size", "n_inner"}};
  if (model_type == "whisper")
    return {{"hidden_size", "d_model"},
            {"num_hidden_layers", "decoder_layers"},
            {"num_attention_heads", "decoder_attention_heads"},
            {"intermediate_size", "decoder_ffn_dim"},
            {"n_positions", "max_target_positions"}};
  if (model_type == "mixtral" || model_type == "gpt_oss" || model_type == "llama4_text")
    return {{"num_experts", "num_local_experts"}};
  if (model_type == "gemma4_text") return {{"num_experts_per_tok", "top_k_experts"}};
  if (model_type == "mamba2")
    return {{"mamba_num_heads", "num_heads"}, {"mamba_head_dim", "head_dim"}, {"ssm_state_size", "state_size"}};
  if (model_type == "falcon_mamba") return {{"ssm_state_size", "state_size"}};
  if (model_type == "deepseek_v3" || model_type == "deepseek_v32" || model_type == "kimi_k2" ||
      model_type == "glm_moe_dsa" || model_type == "glm4_moe" || model_type == "nemotron_h")
    return {{"num_experts", "n_routed_experts"}};
  return {};
}

}  // namespace ridge::model
