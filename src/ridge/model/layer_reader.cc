#include "ridge/model/layer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"

namespace ridge::model {
namespace {

void fail_unless_false(KeyReader& reader, std::string_view key, const std::string& hint) {
  if (reader.read_flag_or(key, false)) reader.fail(key, "expected false, found true", hint);
}

void read_latent_attention(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  LatentConfig latent;
  latent.query_rank = reader.read_integer_or("q_lora_rank", 0, 1, max_size);
  latent.rank = reader.read_integer("kv_lora_rank", 1, max_size);
  latent.nope_size = reader.read_integer("qk_nope_head_dim", 1, max_size);
  latent.rope_size = reader.read_integer("qk_rope_head_dim", 1, max_size);
  latent.value_size = reader.read_integer("v_head_dim", 1, max_size);
  config.latent = latent;
  config.head_size = latent.nope_size + latent.rope_size;
  config.kv_heads = reader.read_integer_or("num_key_value_heads", config.heads, 1, max_heads);
  if (config.kv_heads != config.heads)
    reader.fail("num_key_value_heads",
                fmt::format("expected {} as in {}, found {}", config.heads, reader.path_of("num_attention_heads"),
                            config.kv_heads),
                "latent attention has a key and a value for each head");
  for (const char* implied : {"head_dim", "qk_head_dim"}) reader.skip(implied);
  fail_unless_false(reader, "attention_bias", "biases of latent attention are not counted yet");
  if (!family.has_indexer) return;
  config.indexer = IndexerConfig{.heads = reader.read_integer("index_n_heads", 1, max_heads),
                                 .head_size = reader.read_integer("index_head_dim", 1, max_size),
                                 .chosen = reader.read_integer("index_topk", 1, max_size)};
  reader.skip("indexer_rope_interleave");
  if (latent.query_rank == 0)
    reader.fail("q_lora_rank", "expected the rank of queries, found none",
                "the indexer's queries are computed from it");
}

void read_head_size(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  const char* key =
      family.model_type == "nemotron_h" && reader.has_key("attention_head_dim") ? "attention_head_dim" : "head_dim";
  if (family.has_fixed_head_size || reader.has_key(key)) {
    config.head_size = reader.read_integer(key, 1, max_size);
    return;
  }
  config.head_size = config.width / config.heads;
  if (config.head_size * config.heads != config.width)
    reader.fail("num_attention_heads",
                fmt::format("expected a divisor of {}, which is {}, found {}", reader.path_of("hidden_size"),
                            config.width, config.heads),
                "if heads have another size, head_dim says so");
}

void check_key_heads(KeyReader& reader, const ModelConfig& config, std::string_view key, std::int64_t kv_heads) {
  if (config.heads % kv_heads != 0)
    reader.fail(key, fmt::format("expected a divisor of {}, which is {}, found {}",
                                 reader.path_of("num_attention_heads"), config.heads, kv_heads));
}

// Gemma 4: layers with full attention have heads of their own, whose values may be their keys.
void read_full_heads(KeyReader& reader, ModelConfig& config) {
  HeadConfig full{.kv_heads = config.kv_heads, .size = reader.read_integer("global_head_dim", 1, max_size)};
  full.has_values = !reader.read_flag_or("attention_k_eq_v", false);
  const std::int64_t kv_heads = reader.read_integer_or("num_global_key_value_heads", config.kv_heads, 1, max_heads);
  if (!full.has_values) full.kv_heads = kv_heads;
  check_key_heads(reader, config, "num_global_key_value_heads", full.kv_heads);
  config.full_heads = full;
  config.has_plain_value_norm = true;
  if (reader.read_integer_or("hidden_size_per_layer_input", 0, 0, max_size) > 0)
    reader.fail("hidden_size_per_layer_input", "expected 0", "embeddings per layer are not counted yet");
  if (reader.read_integer_or("num_kv_shared_layers", 0, 0, max_layers) > 0)
    reader.fail("num_kv_shared_layers", "expected 0", "caches that layers share are not counted yet");
  for (const char* unused : {"use_double_wide_mlp", "vocab_size_per_layer_input"}) reader.skip(unused);
  if (const std::string seen = reader.read_text_or("use_bidirectional_attention", "vision"); seen != "vision")
    reader.fail("use_bidirectional_attention", fmt::format("expected 'vision', found '{}'", make_printable(seen)),
                "an encoder has no cache");
}

// Returns which layers slide by the family's rule; `config.layers` has the number of layers.
void apply_window_rule(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  const auto count = static_cast<std::int64_t>(config.layers.size());
  std::int64_t first = 0, pattern = 0;
  if (family.window == WindowRule::switched) first = reader.read_integer_or("max_window_layers", count, 0, max_size);
  if (family.window == WindowRule::pattern) {
    const char* key = reader.has_key("_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern";
    pattern = reader.read_integer_or(key, family.default_pattern, 1, max_layers);
  }
  if (family.window == WindowRule::chunked)
    pattern = reader.read_integer_or("no_rope_layer_interval", family.default_pattern, 1, max_layers);
  for (std::int64_t i = 0; i < count; ++i)
    config.layers[static_cast<std::size_t>(i)].is_sliding = i >= first && (pattern == 0 || (i + 1) % pattern != 0);
}

// Applies layer_types: full_attention, or the name of the family's other kind of layer.
void apply_layer_types(KeyReader& reader, const FamilyConventions& family, const std::vector<std::string>& types,
                       ModelConfig& config) {
  if (types.size() != config.layers.size())
    return reader.fail("layer_types", fmt::format("expected {} entries as in {}, found {}", config.layers.size(),
                                                  reader.path_of("num_hidden_layers"), types.size()));
  std::string other = family.window == WindowRule::chunked ? "chunked_attention" : "sliding_attention";
  if (is_recurrent(family.recurrent)) other = "linear_attention";
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != other)
      return reader.fail(
          "layer_types",
          fmt::format("expected full_attention or {} for layer {}, found '{}'", other, i, make_printable(types[i])),
          fmt::format("model_type '{}' has no other layers", family.model_type));
    if (is_recurrent(family.recurrent))
      config.layers[i].mixer = types[i] == other ? family.recurrent : Mixer::attention;
    else
      config.layers[i].is_sliding = types[i] == other;
  }
}

RecurrentConfig read_gated_delta(KeyReader& reader, ModelConfig& config) {
  RecurrentConfig out{.groups = reader.read_integer("linear_num_key_heads", 1, max_heads),
                      .heads = reader.read_integer("linear_num_value_heads", 1, max_heads),
                      .key_size = reader.read_integer("linear_key_head_dim", 1, max_size),
                      .value_size = reader.read_integer("linear_value_head_dim", 1, max_size),
                      .conv_size = reader.read_integer("linear_conv_kernel_dim", 2, max_heads),
                      .state_dtype = DType::f32};
  if (out.heads % out.groups != 0)
    reader.fail("linear_num_value_heads", fmt::format("expected a multiple of {}, which is {}, found {}",
                                                      reader.path_of("linear_num_key_heads"), out.groups, out.heads));
  const std::int64_t interval = reader.read_integer_or("full_attention_interval", 4, 1, max_layers);
  const std::vector<std::string> types = reader.read_texts("layer_types");
  if (types.empty()) {
    for (std::size_t i = 0; i < config.layers.size(); ++i)
      config.layers[i].mixer =
          (static_cast<std::int64_t>(i) + 1) % interval == 0 ? Mixer::attention : Mixer::gated_delta;
  }
  return out;
}

RecurrentConfig read_mamba2(KeyReader& reader, const FamilyConventions& family, const ModelConfig& config) {
  RecurrentConfig out{.groups = reader.read_integer("n_groups", 1, max_heads),
                      .heads = reader.read_integer("mamba_num_heads", 1, max_heads),
                      .key_size = reader.read_integer("ssm_state_size", 1, max_size),
                      .value_size = reader.read_integer("mamba_head_dim", 1, max_size),
                      .conv_size = reader.read_integer("conv_kernel", 2, max_heads),
                      .chunk = reader.read_integer_or("chunk_size", 256, 1, max_size)};
  if (out.heads % out.groups != 0)
    reader.fail("mamba_num_heads", fmt::format("expected a multiple of {}, which is {}, found {}",
                                               reader.path_of("n_groups"), out.groups, out.heads));
  const std::int64_t expand = reader.read_integer_or("expand", 2, 1, max_heads);
  if (!family.has_attention && expand * config.width != out.heads * out.value_size)
    reader.fail("mamba_num_heads",
                fmt::format("expected heads of {} elements in all, {} times {}, found {}", expand * config.width,
                            expand, reader.path_of("hidden_size"), out.heads * out.value_size));
  return out;
}

RecurrentConfig read_mamba1(KeyReader& reader, const ModelConfig& config) {
  const std::int64_t expand = reader.read_integer_or("expand", 2, 1, max_heads);
  return {.heads = reader.read_integer_or("intermediate_size", expand * config.width, 1, max_size),
          .key_size = reader.read_integer("ssm_state_size", 1, max_size),
          .value_size = 1,
          .conv_size = reader.read_integer("conv_kernel", 2, max_heads),
          .step_rank = reader.read_integer_or("time_step_rank", ceil_div(config.width, 16), 1, max_size)};
}

// Reads the format of the state, which is an instruction to engines.
void read_state_dtype(KeyReader& reader, RecurrentConfig& recurrent) {
  for (const char* key : {"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}) {
    const std::string name = reader.read_text_or(key, "");
    if (name == "float32")
      recurrent.state_dtype = DType::f32;
    else if (name == "bfloat16")
      recurrent.state_dtype = DType::bf16;
    else if (name == "float16")
      recurrent.state_dtype = DType::f16;
    else if (!name.empty())
      reader.fail(key, fmt::format("expected float32, bfloat16 or float16, found '{}'", make_printable(name)));
  }
}

constexpr std::array<std::pair<std::string_view, char>, 4> block_types{
    {{"mamba", 'M'}, {"attention", '*'}, {"mlp", '-'}, {"moe", 'E'}}};

// Returns the letters of layers_block_type, which names each layer by a word.
std::string abbreviate_block_types(KeyReader& reader) {
  std::string out;
  for (const std::string& type : reader.read_texts("layers_block_type")) {
    const auto known =
        std::find_if(block_types.begin(), block_types.end(), [&](const auto& block) { return block.first == type; });
    if (known != block_types.end())
      out += known->second;
    else
      reader.fail("layers_block_type", fmt::format("expected mamba, attention, mlp or moe for layer {}, found '{}'",
                                                   out.size(), make_printable(type)));
  }
  return out;
}

// Applies a pattern with a letter for each layer: M is Mamba-2, * attention, - a dense network, E experts.
void apply_hybrid_pattern(KeyReader& reader, ModelConfig& config) {
  const bool has_words = reader.has_key("layers_block_type");
  const std::string words = abbreviate_block_types(reader);
  const std::string pattern =
      has_words ? reader.read_text_or("hybrid_override_pattern", words) : reader.read_text("hybrid_override_pattern");
  if (has_words && reader.status() && pattern != words)
    reader.fail("hybrid_override_pattern",
                fmt::format("expected {} as in layers_block_type, found '{}'", words, make_printable(pattern)));
  if (reader.status() && pattern.size() != config.layers.size())
    reader.fail("hybrid_override_pattern", fmt::format("expected {} letters as in {}, found {}", config.layers.size(),
                                                       reader.path_of("num_hidden_layers"), pattern.size()));
  for (std::size_t i = 0; i < std::min(pattern.size(), config.layers.size()); ++i) {
    const char letter = pattern[i];
    if (letter != 'M' && letter != '*' && letter != '-' && letter != 'E')
      return reader.fail("hybrid_override_pattern", fmt::format("expected M, *, - or E for layer {}, found '{}'", i,
                                                                make_printable(std::string(1, letter))));
    LayerConfig& layer = config.layers[i];
    layer.mixer = letter == '*' ? Mixer::attention : Mixer::none;
    if (letter == 'M') layer.mixer = Mixer::mamba2;
    layer.has_feed_forward = layer.mixer == Mixer::none;
    layer.has_experts = letter == 'E';
  }
}

// Reads the sizes of experts that a family with shared experts has; returns the number of dense layers at the start.
std::int64_t read_shared_experts(KeyReader& reader, const FamilyConventions& family, const ModelConfig& config,
                                 ExpertConfig& experts) {
  const std::int64_t shared = reader.read_integer("n_shared_experts", 0, max_experts);
  experts.shared_width = experts.width * shared;
  experts.has_score_correction = true;
  if (family.experts == ExpertRule::by_pattern) {
    if (shared > 0) experts.shared_width = reader.read_integer("moe_shared_expert_intermediate_size", 1, max_size);
    return 0;
  }
  const std::int64_t first = reader.read_integer("first_k_dense_replace", 0, max_layers);
  if (const std::string method = reader.read_text_or("topk_method", "noaux_tc"); method != "noaux_tc")
    reader.fail("topk_method", fmt::format("expected noaux_tc, found '{}'", make_printable(method)));
  if (reader.read_integer_or("moe_layer_freq", 1, 1, max_layers) != 1)
    reader.fail("moe_layer_freq", "expected 1", "layers with other frequencies are not counted yet");
  if (first > static_cast<std::int64_t>(config.layers.size()))
    reader.fail("first_k_dense_replace", fmt::format("expected at most {} as in {}, found {}", config.layers.size(),
                                                     reader.path_of("num_hidden_layers"), first));
  return first;
}

// Decides which layers have experts.
void place_experts(KeyReader& reader, const FamilyConventions& family, std::int64_t first, ModelConfig& config) {
  std::int64_t step = 1;
  std::vector<std::int64_t> dense;
  if (family.experts == ExpertRule::sparse_step) {
    step = reader.read_integer_or("decoder_sparse_step", 1, 1, max_layers);
    dense = reader.read_integers("mlp_only_layers", max_layers);
  }
  if (family.experts == ExpertRule::interleaved)
    step = reader.read_integer_or("interleave_moe_layer_step", 1, 1, max_layers);
  std::vector<std::int64_t> listed;
  if (family.experts == ExpertRule::interleaved) listed = reader.read_integers("moe_layers", max_layers);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    config.layers[i].has_experts = index >= first && (index + 1) % step == 0 && !contains(dense, index);
    if (!listed.empty()) config.layers[i].has_experts = contains(listed, index);
    if (!config.layers[i].has_experts && config.feed_forward_width == 0)
      reader.fail("intermediate_size", fmt::format("expected the width of layer {} without experts, found none", i));
  }
}

// Returns the intermediate width of a routed expert.
std::int64_t read_expert_width(KeyReader& reader, const FamilyConventions& family, const ModelConfig& config) {
  if (family.experts == ExpertRule::interleaved) return reader.read_integer("intermediate_size", 1, max_size);
  return family.experts == ExpertRule::all_layers ? config.feed_forward_width
                                                  : reader.read_integer("moe_intermediate_size", 1, max_size);
}

}  // namespace

void read_attention(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (!family.has_attention) return;
  config.heads = reader.read_integer("num_attention_heads", 1, max_heads);
  if (family.has_latent_attention) return read_latent_attention(reader, family, config);
  config.kv_heads = family.shares_heads_by_default
                        ? reader.read_integer_or("num_key_value_heads", config.heads, 1, max_heads)
                        : reader.read_integer("num_key_value_heads", 1, max_heads);
  check_key_heads(reader, config, "num_key_value_heads", config.kv_heads);
  read_head_size(reader, family, config);
  if (family.has_attention_bias_key)
    config.has_qkv_bias = reader.read_flag_or("attention_bias", family.model_type == "gpt_oss");
  config.has_output_bias = config.has_qkv_bias && family.has_output_bias;
  config.has_qkv_bias = config.has_qkv_bias || family.has_qkv_bias;
  config.has_qk_norm = family.has_qk_norm || (family.has_qk_norm_key && reader.read_flag_or("use_qk_norm", false));
  config.has_output_gate = family.has_output_gate && reader.read_flag_or("attn_output_gate", true);
  if (family.model_type == "gemma4_text") read_full_heads(reader, config);
  if (family.model_type == "llama4_text") {
    config.has_plain_qk_norm = reader.read_flag_or("use_qk_norm", true);
    config.has_positions_in_full = false;
  }
  if (family.model_type == "qwen3_moe") {
    fail_unless_false(reader, "qkv_bias", "attention_bias decides about biases");
    if (!reader.read_flag_or("use_qk_norm", true))
      reader.fail("use_qk_norm", "expected true, found false", "this model_type normalizes queries and keys");
    if (reader.read_integer_or("shared_expert_intermediate_size", 0, 0, max_size) > 0)
      reader.fail("shared_expert_intermediate_size", "expected 0", "this model_type has no shared experts");
  }
  if (family.model_type == "qwen3_5_text" && !reader.read_integers("mlp_only_layers", max_layers).empty())
    reader.fail("mlp_only_layers", "expected an empty list", "this model_type has no experts");
  if (family.model_type == "phi3") {
    for (const char* part : {"attention_bias", "mlp_bias", "lm_head_bias"})
      fail_unless_false(reader, part, "biases of this model_type are not counted yet");
    for (const char* unused : {"full_attn_mod", "interpolate_factor", "original_max_position_embeddings"})
      reader.skip(unused);
  }
}

void read_recurrent(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (!is_recurrent(family.recurrent)) return;
  RecurrentConfig recurrent;
  if (family.recurrent == Mixer::gated_delta) recurrent = read_gated_delta(reader, config);
  if (family.recurrent == Mixer::mamba2) recurrent = read_mamba2(reader, family, config);
  if (family.recurrent == Mixer::mamba1) recurrent = read_mamba1(reader, config);
  if (family.recurrent == Mixer::gated_delta) {
    if (const std::string gate = reader.read_text_or("output_gate_type", "swish"); gate != "swish")
      reader.fail("output_gate_type", fmt::format("expected swish, found '{}'", make_printable(gate)));
    if (reader.has_key("layer_types")) apply_layer_types(reader, family, reader.read_texts("layer_types"), config);
  } else {
    recurrent.has_conv_bias = reader.read_flag_or("use_conv_bias", true);
    recurrent.has_bias = reader.read_flag_or("use_bias", false);
    fail_unless_false(reader, "mamba_proj_bias", "use_bias decides about biases");
    if (family.recurrent == Mixer::mamba2) reader.skip("time_step_rank");
  }
  if (family.has_attention && family.recurrent == Mixer::mamba2) {
    apply_hybrid_pattern(reader, config);
    config.has_positions_in_full = false;
  }
  if (!family.has_attention)
    for (LayerConfig& layer : config.layers) layer = {.mixer = family.recurrent, .has_feed_forward = false};
  read_state_dtype(reader, recurrent);
  config.recurrent = recurrent;
}

void read_windows(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (family.window == WindowRule::none) {
    if (reader.has_key("sliding_window"))
      reader.fail("sliding_window", "expected null", fmt::format("model_type '{}' has no windows", family.model_type));
    if (is_recurrent(family.recurrent) || family.has_qk_norm)
      fail_unless_false(reader, "use_sliding_window", "this model_type has no windows");
    return;
  }
  const std::vector<std::string> types = reader.read_texts("layer_types");
  config.has_chunks = family.window == WindowRule::chunked;
  const char* window = config.has_chunks ? "attention_chunk_size" : "sliding_window";
  config.window = reader.read_integer_or(window, 0, 1, max_tokens);
  if (family.window == WindowRule::switched) {
    const bool is_on = reader.read_flag_or("use_sliding_window", false);
    reader.skip("max_window_layers");
    if (is_on && family.experts != ExpertRule::none)
      reader.fail("use_sliding_window", "expected false, found true",
                  "which layers of this model_type slide is not known; layers are not guessed");
    if (!is_on) config.window = 0;
  }
  const auto positions = config.has_chunks ? reader.read_integers("no_rope_layers", 1) : std::vector<std::int64_t>{};
  if (reader.has_key("layer_types"))
    apply_layer_types(reader, family, types, config);
  else if (positions.size() == config.layers.size())
    for (std::size_t i = 0; i < positions.size(); ++i) config.layers[i].is_sliding = positions[i] == 1;
  else if (config.window > 0 || family.window == WindowRule::pattern)
    apply_window_rule(reader, family, config);
  for (const char* pattern : {"sliding_window_pattern", "_sliding_window_pattern"})
    if (family.window == WindowRule::pattern) reader.skip(pattern);
  const bool slides = std::any_of(config.layers.begin(), config.layers.end(),
                                  [](const LayerConfig& layer) { return layer.is_sliding; });
  if (slides && config.window == 0)
    reader.fail(window, "expected the window of the layers with sliding attention, found none",
                family.window == WindowRule::switched ? "use_sliding_window must be true as well" : "");
  if (!slides) config.window = 0;
}

void read_experts(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  const bool is_in_pattern = std::any_of(config.layers.begin(), config.layers.end(),
                                         [](const LayerConfig& layer) { return layer.has_experts; });
  if (family.experts == ExpertRule::switched && !reader.read_flag_or("enable_moe_block", false)) return;
  if (family.experts == ExpertRule::none || (family.experts == ExpertRule::by_pattern && !is_in_pattern)) return;
  ExpertConfig experts;
  experts.routed = reader.read_integer("num_experts", 1, max_experts);
  experts.per_token = reader.read_integer("num_experts_per_tok", 1, max_experts);
  experts.width = read_expert_width(reader, family, config);
  experts.has_router_bias = family.model_type == "gpt_oss";
  experts.has_normalized_weights = reader.read_flag_or("norm_topk_prob", true);
  std::int64_t first = 0;
  if (family.experts == ExpertRule::first_dense || family.experts == ExpertRule::by_pattern)
    first = read_shared_experts(reader, family, config, experts);
  if (family.has_shared_gate) {
    experts.shared_width = reader.read_integer("shared_expert_intermediate_size", 1, max_size);
    experts.has_shared_gate = true;
  }
  if (family.experts == ExpertRule::interleaved) experts.shared_width = experts.width;
  experts.has_dense_part = family.experts == ExpertRule::switched;
  if (experts.has_dense_part) config.norms_per_layer = 7;
  if (experts.per_token > experts.routed)
    reader.fail("num_experts_per_tok", fmt::format("expected at most {} as in {}, found {}", experts.routed,
                                                   reader.path_of("num_experts"), experts.per_token));
  if (family.experts != ExpertRule::by_pattern) place_experts(reader, family, first, config);
  config.experts = experts;
}

bool has_mixer(const ModelConfig& config, Mixer mixer) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [&](const LayerConfig& layer) { return layer.mixer == mixer; });
}

}  // namespace ridge::model
