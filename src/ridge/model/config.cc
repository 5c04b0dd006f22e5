#include "ridge/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/model/key_reader.h"
#include "ridge/model/quantization.h"

namespace ridge::model {
namespace {

// Limits of values, some hundred times those of published models.
constexpr std::int64_t max_layers = 1 << 12, max_size = 1 << 24, max_vocabulary = 1 << 28, max_heads = 1 << 16,
                       max_experts = 1 << 16, max_tokens = std::int64_t{1} << 40;

// Rule that decides which layers have sliding attention if `layer_types` is missing.
enum class WindowRule {
  none,      // The family has no sliding attention
  all,       // Every layer slides if sliding_window is set
  switched,  // Layers from max_window_layers slide if use_sliding_window is true
  pattern    // Layer i is full if i + 1 is a multiple of the pattern
};
enum class ExpertRule { none, all_layers, sparse_step, first_dense };

// Conventions of a model_type that no key states. Source: its class in Hugging Face's transformers (configuration_*.py,
// modeling_*.py).
struct FamilyConventions {
  std::string_view model_type;
  WindowRule window = WindowRule::none;
  std::int64_t default_pattern = 0;
  ExpertRule experts = ExpertRule::none;
  int norms_per_layer = 2;
  bool is_tied_by_default = false;
  bool has_attention_bias_key = false;     // `attention_bias` adds a bias to q, k, v and o
  bool has_feed_forward_bias_key = false;  // `mlp_bias`
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool has_fixed_head_size = false;      // Without head_dim, the class's own number applies, not hidden_size / heads
  bool shares_heads_by_default = false;  // Without num_key_value_heads, each query head has its own
};

constexpr std::array<FamilyConventions, 12> families{{
    {.model_type = "llama",
     .has_attention_bias_key = true,
     .has_feed_forward_bias_key = true,
     .shares_heads_by_default = true},
    {.model_type = "mistral", .window = WindowRule::all},
    {.model_type = "mixtral", .window = WindowRule::all, .experts = ExpertRule::all_layers},
    {.model_type = "qwen2", .window = WindowRule::switched, .has_qkv_bias = true},
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
    {.model_type = "gpt_oss",
     .window = WindowRule::pattern,
     .default_pattern = 2,
     .experts = ExpertRule::all_layers,
     .has_attention_bias_key = true,
     .has_fixed_head_size = true},
    {.model_type = "gpt2", .is_tied_by_default = true, .shares_heads_by_default = true},
    {.model_type = "deepseek_v3", .experts = ExpertRule::first_dense},
    {.model_type = "kimi_k2", .experts = ExpertRule::first_dense},
}};

using Aliases = std::map<std::string, std::string, std::less<>>;

// Returns the names that the family gives to common keys.
Aliases aliases_of(std::string_view model_type) {
  if (model_type == "gpt2")
    return {{"hidden_size", "n_embd"},
            {"num_hidden_layers", "n_layer"},
            {"num_attention_heads", "n_head"},
            {"intermediate_size", "n_inner"}};
  if (model_type == "mixtral" || model_type == "gpt_oss") return {{"num_experts", "num_local_experts"}};
  if (model_type == "deepseek_v3" || model_type == "kimi_k2") return {{"num_experts", "n_routed_experts"}};
  return {};
}

void read_attention(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  config.heads = reader.read_integer("num_attention_heads", 1, max_heads);
  if (family.experts == ExpertRule::first_dense) {
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
    if (reader.read_flag_or("attention_bias", false))
      reader.fail("attention_bias", "expected false, found true", "biases of latent attention are not counted yet");
    return;
  }
  config.kv_heads = family.shares_heads_by_default
                        ? reader.read_integer_or("num_key_value_heads", config.heads, 1, max_heads)
                        : reader.read_integer("num_key_value_heads", 1, max_heads);
  if (config.heads % config.kv_heads != 0)
    reader.fail("num_key_value_heads",
                fmt::format("expected a divisor of {}, which is {}, found {}", reader.path_of("num_attention_heads"),
                            config.heads, config.kv_heads));
  if (family.has_fixed_head_size || reader.has_key("head_dim")) {
    config.head_size = reader.read_integer("head_dim", 1, max_size);
  } else {
    config.head_size = config.width / config.heads;
    if (config.head_size * config.heads != config.width)
      reader.fail("num_attention_heads",
                  fmt::format("expected a divisor of {}, which is {}, found {}", reader.path_of("hidden_size"),
                              config.width, config.heads),
                  "if heads have another size, head_dim says so");
  }
  if (family.has_attention_bias_key)
    config.has_qkv_bias = config.has_output_bias =
        reader.read_flag_or("attention_bias", family.model_type == "gpt_oss");
  config.has_qkv_bias = config.has_qkv_bias || family.has_qkv_bias;
  config.has_qk_norm = family.has_qk_norm;
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
  for (std::int64_t i = 0; i < count; ++i)
    config.layers[static_cast<std::size_t>(i)].is_sliding = i >= first && (pattern == 0 || (i + 1) % pattern != 0);
}

void apply_layer_types(KeyReader& reader, const std::vector<std::string>& types, ModelConfig& config) {
  if (types.size() != config.layers.size())
    return reader.fail("layer_types", fmt::format("expected {} entries as in {}, found {}", config.layers.size(),
                                                  reader.path_of("num_hidden_layers"), types.size()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      return reader.fail("layer_types",
                         fmt::format("expected full_attention or sliding_attention for layer {}, found '{}'", i,
                                     make_printable(types[i])),
                         "other layers, such as linear attention, are not counted yet");
    config.layers[i].is_sliding = types[i] == "sliding_attention";
  }
}

void read_windows(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (family.window == WindowRule::none) return;
  const std::vector<std::string> types = reader.read_texts("layer_types");
  config.window = reader.read_integer_or("sliding_window", 0, 1, max_tokens);
  if (family.window == WindowRule::switched) {
    const bool is_on = reader.read_flag_or("use_sliding_window", false);
    reader.skip("max_window_layers");
    if (is_on && family.experts != ExpertRule::none)
      reader.fail("use_sliding_window", "expected false, found true",
                  "which layers of this model_type slide is not known; layers are not guessed");
    if (!is_on) config.window = 0;
  }
  if (reader.has_key("layer_types"))
    apply_layer_types(reader, types, config);
  else if (config.window > 0 || family.window == WindowRule::pattern)
    apply_window_rule(reader, family, config);
  for (const char* pattern : {"sliding_window_pattern", "_sliding_window_pattern"})
    if (family.window == WindowRule::pattern) reader.skip(pattern);
  const bool slides = std::any_of(config.layers.begin(), config.layers.end(),
                                  [](const LayerConfig& layer) { return layer.is_sliding; });
  if (slides && config.window == 0)
    reader.fail("sliding_window", "expected the window of the layers with sliding attention, found none",
                family.window == WindowRule::switched ? "use_sliding_window must be true as well" : "");
  if (!slides) config.window = 0;
}

// Reads experts and decides which layers have them.
void read_experts(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (family.experts == ExpertRule::none) return;
  ExpertConfig experts;
  experts.routed = reader.read_integer("num_experts", 1, max_experts);
  experts.per_token = reader.read_integer("num_experts_per_tok", 1, max_experts);
  experts.width = config.feed_forward_width;
  experts.has_router_bias = family.model_type == "gpt_oss";
  experts.has_normalized_weights = reader.read_flag_or("norm_topk_prob", true);
  std::int64_t step = 1, first = 0;
  std::vector<std::int64_t> dense;
  if (family.experts == ExpertRule::sparse_step) {
    experts.width = reader.read_integer("moe_intermediate_size", 1, max_size);
    step = reader.read_integer_or("decoder_sparse_step", 1, 1, max_layers);
    dense = reader.read_integers("mlp_only_layers", max_layers);
  }
  if (family.experts == ExpertRule::first_dense) {
    experts.width = reader.read_integer("moe_intermediate_size", 1, max_size);
    experts.shared = reader.read_integer("n_shared_experts", 0, max_experts);
    first = reader.read_integer("first_k_dense_replace", 0, max_layers);
    experts.has_score_correction = true;
    if (const std::string method = reader.read_text_or("topk_method", "noaux_tc"); method != "noaux_tc")
      reader.fail("topk_method", fmt::format("expected noaux_tc, found '{}'", make_printable(method)));
    if (reader.read_integer_or("moe_layer_freq", 1, 1, max_layers) != 1)
      reader.fail("moe_layer_freq", "expected 1", "layers with other frequencies are not counted yet");
    if (first > static_cast<std::int64_t>(config.layers.size()))
      reader.fail("first_k_dense_replace", fmt::format("expected at most {} as in {}, found {}", config.layers.size(),
                                                       reader.path_of("num_hidden_layers"), first));
  }
  if (experts.per_token > experts.routed)
    reader.fail("num_experts_per_tok", fmt::format("expected at most {} as in {}, found {}", experts.routed,
                                                   reader.path_of("num_experts"), experts.per_token));
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    config.layers[i].has_experts = index >= first && (index + 1) % step == 0 && !contains(dense, index);
  }
  config.experts = experts;
}

// Notes what the file has besides the model that is counted.
void note_uncounted(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (family.experts == ExpertRule::first_dense) {
    const std::int64_t extra = reader.read_integer_or("num_nextn_predict_layers", 0, 0, max_layers);
    if (extra > 0)
      config.notes.push_back(fmt::format("{} = {}: the layers that predict further tokens are not counted",
                                         reader.path_of("num_nextn_predict_layers"), extra));
  }
  if (family.model_type == "gemma3_text" && reader.read_flag_or("use_bidirectional_attention", false))
    reader.fail("use_bidirectional_attention", "expected false, found true", "an encoder has no cache");
  if (family.model_type == "gpt2" && reader.read_flag_or("add_cross_attention", false))
    reader.fail("add_cross_attention", "expected false, found true", "cross attention is not counted yet");
}

// Fails unless `architectures` names a language model, whose head has the vocabulary's size.
void check_architecture(KeyReader& reader) {
  for (const std::string& name : reader.read_texts("architectures"))
    if (!name.ends_with("ForCausalLM") && !name.ends_with("ForConditionalGeneration") && name != "GPT2LMHeadModel")
      reader.fail("architectures",
                  fmt::format("expected a class that ends with ForCausalLM, found '{}'", make_printable(name)),
                  "heads of other classes are not counted");
}

void read_gpt2(KeyReader& reader, ModelConfig& config) {
  config.learned_positions = reader.read_integer("n_positions", 1, max_vocabulary);
  config.is_gated = false;
  config.has_qkv_bias = config.has_output_bias = config.has_feed_forward_bias = config.has_norm_bias = true;
}

// Reads what programs need besides the sizes.
void read_functions(KeyReader& reader, ModelConfig& config) {
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function"})
    if (config.activation.empty()) config.activation = reader.read_text_or(key, "");
  config.max_positions = reader.read_integer_or("max_position_embeddings", 0, 1, max_tokens);
  config.rotary_base = reader.read_positive_or("rope_theta", 0);
  if (const Json* nested = reader.find_object("rope_parameters"))
    config.rotary_base =
        KeyReader(*nested, reader.source(), "rope_parameters.").read_positive_or("rope_theta", config.rotary_base);
  config.sliding_rotary_base = reader.read_positive_or("rope_local_base_freq", config.rotary_base);
  config.attention_softcap = reader.read_positive_or("attn_logit_softcapping", 0);
  config.logit_softcap = reader.read_positive_or("final_logit_softcapping", 0);
}

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

Result<ModelConfig> read_config(const Json& object, const std::string& source, const std::string& prefix,
                                std::optional<bool> outer_tie) {
  KeyReader type_reader(object, source, prefix);
  RIDGE_TRY(family, find_family(type_reader));
  KeyReader reader(object, source, prefix, aliases_of(family->model_type));
  ModelConfig config;
  config.model_type = reader.read_text("model_type");
  check_architecture(reader);
  config.width = reader.read_integer("hidden_size", 1, max_size);
  config.vocabulary = reader.read_integer("vocab_size", 1, max_vocabulary);
  config.layers.resize(static_cast<std::size_t>(reader.read_integer("num_hidden_layers", 1, max_layers)));
  config.feed_forward_width = family->model_type == "gpt2"
                                  ? reader.read_integer_or("intermediate_size", 4 * config.width, 1, max_size)
                                  : reader.read_integer("intermediate_size", 1, max_size);
  config.norms_per_layer = family->norms_per_layer;
  const bool is_tied = reader.read_flag_or("tie_word_embeddings", outer_tie.value_or(family->is_tied_by_default));
  config.is_tied = is_tied;
  if (outer_tie && *outer_tie != is_tied)
    reader.fail("tie_word_embeddings",
                fmt::format("expected {} as outside of text_config, found {}", *outer_tie, is_tied));
  read_attention(reader, *family, config);
  if (family->has_feed_forward_bias_key) config.has_feed_forward_bias = reader.read_flag_or("mlp_bias", false);
  if (family->model_type == "gpt2") read_gpt2(reader, config);
  if (family->model_type == "gpt_oss") config.has_feed_forward_bias = config.has_sinks = true;
  read_functions(reader, config);
  read_windows(reader, *family, config);
  read_experts(reader, *family, config);
  note_uncounted(reader, *family, config);
  const Json* quantization = reader.find_object("quantization_config");
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("model_type '{}'", config.model_type)));
  if (quantization != nullptr) {
    RIDGE_TRY(read, read_quantization(*quantization, source, prefix + "quantization_config.", config));
    config.quantization = read;
  }
  config.keys = reader.keys_read();
  return config;
}

// Reads a config whose language model is in text_config; its other parts are named in notes.
Result<ModelConfig> read_nested(const Json& object, const std::string& source) {
  KeyReader outer(object, source, "");
  const Json* inner = outer.find_object("text_config");
  outer.skip("model_type");
  check_architecture(outer);
  std::optional<bool> tie;
  if (outer.has_key("tie_word_embeddings")) tie = outer.read_flag_or("tie_word_embeddings", false);
  const Json* quantization = outer.find_object("quantization_config");
  std::vector<std::string> others;
  for (const char* part : {"vision_config", "audio_config"})
    if (outer.find_object(part) != nullptr) others.emplace_back(part);
  RIDGE_TRY_STATUS(outer.check_all_read("a config with text_config"));
  RIDGE_TRY(config, read_config(*inner, source, "text_config.", tie));
  if (quantization != nullptr && !config.quantization) {
    RIDGE_TRY(read, read_quantization(*quantization, source, "quantization_config.", config));
    config.quantization = read;
  }
  for (const auto& [name, path] : outer.keys_read())
    if (name == "tie_word_embeddings" || name == "quantization_config") config.keys.emplace(name, path);
  for (const std::string& part : others) config.notes.push_back(fmt::format("{}: this part is not counted", part));
  return config;
}

// Returns the error of a text that is no JSON, with its position.
Error to_syntax_error(const Json::parse_error& error, std::string_view text, const std::string& source) {
  const std::size_t end = std::min(text.size(), error.byte > 0 ? error.byte - 1 : 0);
  const std::size_t start = text.substr(0, end).rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view line = text.substr(start, text.find('\n', start) - start);
  Error out = input_error("expected JSON, found something else", "config.json must be one JSON object");
  out.source = source;
  out.span = {
      .line = static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n')) + 1,
      .column = static_cast<int>(count_characters(text.substr(start, end - start))) + 1};
  out.line_text = make_printable(line);
  return out;
}

Error error_in(const std::string& source, std::string message) {
  Error error = input_error(std::move(message));
  error.source = source;
  return error;
}

// Parses a JSON object whose keys are unique. The depth is limited because printing a value is recursive.
Result<Json> parse_object(std::string_view text, const std::string& source) {
  constexpr int max_depth = 32;
  std::map<int, std::set<std::string>> keys;  // Keys so far of the open object at each depth
  std::string problem;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > max_depth && problem.empty())
      problem = fmt::format("expected at most {} nested values, found more", max_depth);
    if (event == Json::parse_event_t::object_start) keys[depth + 1].clear();
    if (event == Json::parse_event_t::key && !keys[depth].insert(value.get<std::string>()).second && problem.empty())
      problem = fmt::format("expected each key once, found '{}' twice", make_printable(value.get<std::string>()));
    return problem.empty();
  };
  try {
    Json object = Json::parse(text, check);
    if (!problem.empty()) return error_in(source, problem);
    if (!object.is_object())
      return error_in(source, fmt::format("expected a JSON object, found {}", object.type_name()));
    return object;
  } catch (const Json::parse_error& error) {
    return to_syntax_error(error, text, source);
  }
}

}  // namespace

Result<ModelConfig> parse_config(std::string_view text, const std::string& source, const std::string& name) {
  RIDGE_TRY(object, parse_object(text, source));
  const auto inner = object.find("text_config");
  RIDGE_TRY(config, inner != object.end() && inner->is_object() ? read_nested(object, source)
                                                                : read_config(object, source, "", std::nullopt));
  config.name = name;
  return config;
}

}  // namespace ridge::model
