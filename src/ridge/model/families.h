// Conventions of a model_type that no key of its config states. Source: the type's class in Hugging Face's transformers
// (configuration_*.py, modeling_*.py).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ridge/model/config.h"
#include "ridge/model/key_reader.h"

namespace ridge::model {

// Limits of values, some hundred times those of published models.
constexpr std::int64_t max_layers = 1 << 12, max_size = 1 << 24, max_vocabulary = 1 << 28, max_heads = 1 << 16,
                       max_experts = 1 << 16, max_tokens = std::int64_t{1} << 40;

// Rule that decides which layers have sliding attention if `layer_types` is missing.
enum class WindowRule {
  none,      // The family has no sliding attention
  all,       // Every layer slides if sliding_window is set
  switched,  // Layers from max_window_layers slide if use_sliding_window is true
  pattern,   // Layer i is full if i + 1 is a multiple of the pattern
  chunked    // The same; the others see chunks of attention_chunk_size tokens
};
enum class ExpertRule {
  none,
  all_layers,
  sparse_step,  // decoder_sparse_step and mlp_only_layers
  first_dense,  // first_k_dense_replace
  interleaved,  // interleave_moe_layer_step
  switched,     // In all layers, which have a dense part too, if enable_moe_block is true
  by_pattern    // Layers that hybrid_override_pattern names
};

struct FamilyConventions {
  std::string_view model_type;
  WindowRule window = WindowRule::none;
  std::int64_t default_pattern = 0;
  ExpertRule experts = ExpertRule::none;
  int norms_per_layer = 2;
  Mixer recurrent = Mixer::none;  // Mixer of the layers without attention
  bool has_attention = true;      // False if all layers have that mixer and no feed-forward part
  bool is_tied_by_default = false;
  bool has_latent_attention = false;
  bool has_indexer = false;
  bool has_attention_bias_key = false;     // `attention_bias` adds a bias to q, k, v and o
  bool has_output_bias = true;             // False if that key adds none to o
  bool has_feed_forward_bias_key = false;  // `mlp_bias`
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool has_qk_norm_key = false;          // `use_qk_norm`
  bool has_shared_gate = false;          // A shared expert of shared_expert_intermediate_size with a gate
  bool has_output_gate = false;          // Attention has a gate, unless `attn_output_gate` is false
  bool has_fixed_head_size = false;      // Without head_dim, the class's own number applies, not hidden_size / heads
  bool shares_heads_by_default = false;  // Without num_key_value_heads, each query head has its own
};

// Returns the family of the config's model_type. Errors: a missing or unknown model_type.
Result<const FamilyConventions*> find_family(KeyReader& reader);

// Returns the names that the family gives to common keys.
std::map<std::string, std::string, std::less<>> aliases_of(std::string_view model_type);

}  // namespace ridge::model
