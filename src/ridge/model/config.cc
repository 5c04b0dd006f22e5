#include "ridge/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/string_util.h"
#include "ridge/model/layer_reader.h"
#include "ridge/model/quantization.h"
#include "ridge/model/vision.h"

namespace ridge::model {
namespace {

// Notes what the file has besides the model that is counted.
void note_uncounted(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  const bool is_qwen = family.recurrent == Mixer::gated_delta;
  if (family.experts == ExpertRule::first_dense || is_qwen) {
    const char* key = is_qwen ? "mtp_num_hidden_layers" : "num_nextn_predict_layers";
    const std::int64_t extra = reader.read_integer_or(key, 0, 0, max_layers);
    if (extra > 0)
      config.notes.push_back(
          fmt::format("{} = {}: the layers that predict further tokens are not counted", reader.path_of(key), extra));
  }
  if (is_qwen) reader.skip("mtp_use_dedicated_embeddings");
  if (family.model_type == "gemma3_text" && reader.read_flag_or("use_bidirectional_attention", false))
    reader.fail("use_bidirectional_attention", "expected false, found true", "an encoder has no cache");
  for (const char* other : {"add_cross_attention", "is_encoder_decoder"})
    if (family.model_type != "whisper" && reader.read_flag_or(other, false))
      reader.fail(other, "expected false, found true", "cross attention is counted for model_type 'whisper' alone");
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

// Reads the encoder of Whisper, and what its decoder has in addition to the common keys.
void read_whisper(KeyReader& reader, ModelConfig& config) {
  config.learned_positions = reader.read_integer("n_positions", 1, max_vocabulary);
  config.is_gated = config.has_key_bias = false;
  config.has_qkv_bias = config.has_output_bias = config.has_feed_forward_bias = config.has_norm_bias = true;
  AudioConfig audio{.layers = reader.read_integer("encoder_layers", 1, max_layers),
                    .width = config.width,
                    .heads = reader.read_integer("encoder_attention_heads", 1, max_heads),
                    .feed_forward = reader.read_integer("encoder_ffn_dim", 1, max_size),
                    .bins = reader.read_integer("num_mel_bins", 1, max_size),
                    .vectors = reader.read_integer("max_source_positions", 1, max_vocabulary),
                    .activation = reader.read_text_or("activation_function", "gelu")};
  if (audio.width % audio.heads != 0)
    reader.fail("encoder_attention_heads", fmt::format("expected a divisor of {}, which is {}, found {}",
                                                       reader.path_of("hidden_size"), audio.width, audio.heads));
  if (!reader.read_flag_or("is_encoder_decoder", true))
    reader.fail("is_encoder_decoder", "expected true, found false", "the decoder reads what the encoder computes");
  for (const char* unused :
       {"num_hidden_layers", "activation_dropout", "apply_spec_augment", "classifier_proj_size", "decoder_layerdrop",
        "encoder_layerdrop", "dropout", "forced_decoder_ids", "init_std", "mask_feature_length",
        "mask_feature_min_masks", "mask_feature_prob", "mask_time_length", "mask_time_min_masks", "mask_time_prob",
        "median_filter_width", "scale_embedding", "use_weighted_layer_sum"})
    reader.skip_in_file(unused);
  const std::int64_t w = audio.width, f = audio.feed_forward;
  const std::int64_t layer = 4 * w * w + 3 * w + 2 * w * f + f + w + 4 * w;
  const std::int64_t convolutions = 3 * audio.bins * w + w + 3 * w * w + w;
  const auto decoder_layers = static_cast<std::int64_t>(config.layers.size());
  std::vector<std::string> keys;
  for (const char* key : {"d_model", "encoder_layers", "encoder_ffn_dim", "num_mel_bins", "max_source_positions"})
    keys.push_back(reader.path_of(key));
  config.encoders = {
      {"audio encoder", audio.layers, convolutions + audio.vectors * w + audio.layers * layer + 2 * w, keys},
      {"keys and values of sounds",
       decoder_layers,
       decoder_layers * (2 * w * w + w),
       {reader.path_of("hidden_size"), reader.path_of("num_hidden_layers")}}};
  config.audio = audio;
}

// Reads rotary positions. Newer files have them in rope_parameters, some for each kind of layer.
void read_rotary(KeyReader& reader, ModelConfig& config) {
  config.max_positions = reader.read_integer_or("max_position_embeddings", 0, 1, max_tokens);
  config.rotary_base = reader.read_positive_or("rope_theta", 0);
  config.rotary_part = reader.read_positive_or("partial_rotary_factor", 1);
  config.sliding_rotary_base = reader.read_positive_or("rope_local_base_freq", 0);
  if (const Json* object = reader.find_object("rope_parameters")) {
    KeyReader nested(*object, reader.source(), "rope_parameters.");
    const Json *full = nested.find_object("full_attention"), *sliding = nested.find_object("sliding_attention");
    KeyReader of_full(full != nullptr ? *full : *object, reader.source(), "rope_parameters.");
    config.rotary_base = of_full.read_positive_or("rope_theta", config.rotary_base);
    config.rotary_part = of_full.read_positive_or("partial_rotary_factor", config.rotary_part);
    if (sliding != nullptr)
      config.sliding_rotary_base = KeyReader(*sliding, reader.source(), "rope_parameters.sliding_attention.")
                                       .read_positive_or("rope_theta", config.rotary_base);
  }
  if (config.sliding_rotary_base == 0) config.sliding_rotary_base = config.rotary_base;
}

// Reads what programs need besides the sizes.
void read_functions(KeyReader& reader, ModelConfig& config) {
  for (const char* key : {"mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function"})
    if (config.activation.empty()) config.activation = reader.read_text_or(key, "");
  read_rotary(reader, config);
  config.attention_softcap = reader.read_positive_or("attn_logit_softcapping", 0);
  config.logit_softcap = reader.read_positive_or("final_logit_softcapping", 0);
}

// Reads the width of layers without experts. It may be missing only if there are none.
void read_feed_forward(KeyReader& reader, const FamilyConventions& family, ModelConfig& config) {
  if (!family.has_attention) return reader.skip("intermediate_size");
  if (family.model_type == "gpt2")
    config.feed_forward_width = reader.read_integer_or("intermediate_size", 4 * config.width, 1, max_size);
  else if (family.experts == ExpertRule::interleaved)
    config.feed_forward_width = reader.read_integer("intermediate_size_mlp", 1, max_size);
  else if (family.experts == ExpertRule::sparse_step)
    config.feed_forward_width = reader.read_integer_or("intermediate_size", 0, 1, max_size);
  else
    config.feed_forward_width = reader.read_integer("intermediate_size", 1, max_size);
}

// Adds the encoder of a vision_config. Returns false if its model_type is not known.
Result<bool> add_vision(const Json& vision, const std::string& source, const std::string& outer_type,
                        std::int64_t image_tokens, ModelConfig& config) {
  RIDGE_TRY(read, read_vision(vision, source, "vision_config.", outer_type, config.width, image_tokens));
  if (!read) return false;
  config.encoders = std::move(read->parts);
  config.vision = std::move(read->config);
  return true;
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
  config.norms_per_layer = family->norms_per_layer;
  const bool is_tied = reader.read_flag_or("tie_word_embeddings", outer_tie.value_or(family->is_tied_by_default));
  config.is_tied = is_tied;
  if (outer_tie && *outer_tie != is_tied)
    reader.fail("tie_word_embeddings",
                fmt::format("expected {} as outside of text_config, found {}", *outer_tie, is_tied));
  read_attention(reader, *family, config);
  read_recurrent(reader, *family, config);
  read_feed_forward(reader, *family, config);
  if (family->has_feed_forward_bias_key) config.has_feed_forward_bias = reader.read_flag_or("mlp_bias", false);
  if (family->model_type == "gpt2") read_gpt2(reader, config);
  if (family->model_type == "whisper") read_whisper(reader, config);
  if (family->model_type == "gpt_oss") config.has_feed_forward_bias = config.has_sinks = true;
  if (family->model_type == "nemotron_h") config.is_gated = false;
  read_functions(reader, config);
  read_windows(reader, *family, config);
  read_experts(reader, *family, config);
  note_uncounted(reader, *family, config);
  const Json* quantization = reader.find_object("quantization_config");
  const bool has_flat_vision = family->model_type == "qwen2_vl";
  const Json* vision = has_flat_vision ? reader.find_object("vision_config") : nullptr;
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("model_type '{}'", config.model_type)));
  if (vision != nullptr) {
    RIDGE_TRY(is_known, add_vision(*vision, source, config.model_type, 0, config));
    if (!is_known) config.notes.emplace_back("vision_config: this part is not counted");
  }
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
  const std::string type = outer.read_text_or("model_type", "");
  check_architecture(outer);
  std::optional<bool> tie;
  if (outer.has_key("tie_word_embeddings")) tie = outer.read_flag_or("tie_word_embeddings", false);
  const Json* quantization = outer.find_object("quantization_config");
  std::vector<std::string> others;
  for (const char* unused : {"language_model_only", "vision_soft_tokens_per_image"}) outer.skip(unused);
  const Json* vision = outer.find_object("vision_config");
  const std::int64_t image_tokens = outer.read_integer_or("mm_tokens_per_image", 256, 1, max_tokens);
  if (outer.find_object("audio_config") != nullptr) others.emplace_back("audio_config");
  RIDGE_TRY_STATUS(outer.check_all_read("a config with text_config"));
  RIDGE_TRY(config, read_config(*inner, source, "text_config.", tie));
  if (quantization != nullptr && !config.quantization) {
    RIDGE_TRY(read, read_quantization(*quantization, source, "quantization_config.", config));
    config.quantization = read;
  }
  if (vision != nullptr) {
    RIDGE_TRY(is_known, add_vision(*vision, source, type, image_tokens, config));
    if (!is_known) others.emplace(others.begin(), "vision_config");
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

// Returns the text with numbers in place of Infinity and NaN, which Python writes although JSON has none. Positions of
// other characters stay the same.
std::string replace_nonfinite(std::string_view text) {
  std::string out(text);
  bool is_in_string = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_in_string && out[i] == '\\') {
      ++i;
      continue;
    }
    if (out[i] == '"') is_in_string = !is_in_string;
    if (is_in_string) continue;
    if (out.compare(i, 8, "Infinity") == 0) out.replace(i, 8, "1e308   ");
    if (out.compare(i, 3, "NaN") == 0) out.replace(i, 3, "0  ");
  }
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

Result<ModelConfig> parse_config(std::string_view file, const std::string& source, const std::string& name) {
  const std::string text = replace_nonfinite(file);
  RIDGE_TRY(object, parse_object(text, source));
  const auto inner = object.find("text_config");
  RIDGE_TRY(config, inner != object.end() && inner->is_object() ? read_nested(object, source)
                                                                : read_config(object, source, "", std::nullopt));
  config.name = name;
  return config;
}

}  // namespace ridge::model
