#include "ridge/model/key_reader.h"

#include <fmt/format.h>

#include <array>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"

namespace ridge::model {
namespace {

// Keys that change neither parameters nor cache: training, initialization, positions without parameters, activations,
// scores of routers, saved formats.
constexpr auto without_influence = std::to_array<std::string_view>({"_attn_implementation_autoset",
                                                                    "_name_or_path",
                                                                    "activation_function",
                                                                    "attention_dropout",
                                                                    "attn_implementation",
                                                                    "attn_logit_softcapping",
                                                                    "attn_pdrop",
                                                                    "attn_scale",
                                                                    "attn_temperature_tuning",
                                                                    "auto_map",
                                                                    "aux_loss_alpha",
                                                                    "bad_words_ids",
                                                                    "begin_suppress_tokens",
                                                                    "cache_implementation",
                                                                    "chunk_size",
                                                                    "chunk_size_feed_forward",
                                                                    "diversity_penalty",
                                                                    "do_sample",
                                                                    "dtype",
                                                                    "early_stopping",
                                                                    "embd_pdrop",
                                                                    "encoder_no_repeat_ngram_size",
                                                                    "ep_size",
                                                                    "experts_per_token",
                                                                    "exponential_decay_length_penalty",
                                                                    "final_logit_softcapping",
                                                                    "finetuning_task",
                                                                    "floor_scale",
                                                                    "for_llm_compression",
                                                                    "hidden_act",
                                                                    "hidden_activation",
                                                                    "hidden_dropout",
                                                                    "id2label",
                                                                    "ignore_index",
                                                                    "initial_context_length",
                                                                    "initializer_range",
                                                                    "interpolation_type",
                                                                    "is_decoder",
                                                                    "label2id",
                                                                    "layer_norm_eps",
                                                                    "layer_norm_epsilon",
                                                                    "length_penalty",
                                                                    "mamba_hidden_act",
                                                                    "max_length",
                                                                    "max_position_embeddings",
                                                                    "min_length",
                                                                    "mixer_rms_eps",
                                                                    "mm_tokens_per_image",
                                                                    "n_ctx",
                                                                    "n_group",
                                                                    "no_repeat_ngram_size",
                                                                    "norm_eps",
                                                                    "norm_topk_prob",
                                                                    "num_beam_groups",
                                                                    "num_beams",
                                                                    "num_logits_to_keep",
                                                                    "num_return_sequences",
                                                                    "output_attentions",
                                                                    "output_hidden_states",
                                                                    "output_router_logits",
                                                                    "output_scores",
                                                                    "prefix",
                                                                    "pretraining_tp",
                                                                    "problem_type",
                                                                    "pruned_heads",
                                                                    "query_pre_attn_scalar",
                                                                    "remove_invalid_values",
                                                                    "reorder_and_upcast_attn",
                                                                    "repetition_penalty",
                                                                    "rescale_prenorm_residual",
                                                                    "resid_pdrop",
                                                                    "residual_in_fp32",
                                                                    "return_dict",
                                                                    "return_dict_in_generate",
                                                                    "rms_norm",
                                                                    "rms_norm_eps",
                                                                    "rope_interleave",
                                                                    "rope_local_base_freq",
                                                                    "rope_parameters",
                                                                    "rope_scaling",
                                                                    "rope_theta",
                                                                    "routed_scaling_factor",
                                                                    "router_aux_loss_coef",
                                                                    "router_jitter_noise",
                                                                    "scale_attn_by_inverse_layer_idx",
                                                                    "scale_attn_weights",
                                                                    "scoring_func",
                                                                    "seq_aux",
                                                                    "summary_activation",
                                                                    "summary_first_dropout",
                                                                    "summary_proj_to_labels",
                                                                    "summary_type",
                                                                    "summary_use_proj",
                                                                    "suppress_tokens",
                                                                    "swiglu_limit",
                                                                    "task_specific_params",
                                                                    "temperature",
                                                                    "tf_legacy_loss",
                                                                    "tie_encoder_decoder",
                                                                    "time_step_floor",
                                                                    "time_step_init_scheme",
                                                                    "time_step_limit",
                                                                    "time_step_max",
                                                                    "time_step_min",
                                                                    "time_step_scale",
                                                                    "tokenizer_class",
                                                                    "top_k",
                                                                    "top_p",
                                                                    "topk_group",
                                                                    "torch_dtype",
                                                                    "torchscript",
                                                                    "transformers_version",
                                                                    "typical_p",
                                                                    "unsloth_fixed",
                                                                    "unsloth_version",
                                                                    "use_bfloat16",
                                                                    "use_cache",
                                                                    "use_mamba_kernels",
                                                                    "use_mambapy",
                                                                    "use_mrope",
                                                                    "use_unified_vision_chunk",
                                                                    "video_placeholder"});

bool is_without_influence(std::string_view key) {
  return contains(without_influence, key) || key.ends_with("_token_id") || key.ends_with("_token_index") ||
         key.ends_with("_token_ids");
}

// Returns the value as JSON, shortened to one line.
std::string show_value(const Json& value) {
  return truncate_text(make_printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)), 60);
}

}  // namespace

KeyReader::KeyReader(const Json& object, std::string source, std::string prefix,
                     std::map<std::string, std::string, std::less<>> aliases)
    : object_(object), source_(std::move(source)), prefix_(std::move(prefix)), aliases_(std::move(aliases)) {}

std::string KeyReader::file_name(std::string_view name) const {
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? std::string(name) : alias->second;
}

std::string KeyReader::path_of(std::string_view name) const { return prefix_ + file_name(name); }

void KeyReader::fail(std::string_view name, const std::string& message, const std::string& hint) {
  if (error_) return;
  error_ = input_error(fmt::format("{}: {}", path_of(name), message), hint);
  error_->source = source_;
}

Status KeyReader::status() const { return error_ ? Status(*error_) : Status(Done{}); }

const Json* KeyReader::find(std::string_view name) {
  asked_.push_back(file_name(name));
  const auto found = object_.find(asked_.back());
  if (found == object_.end() || found->is_null()) return nullptr;
  read_[std::string(name)] = path_of(name);
  return &*found;
}

const Json* KeyReader::find_required(std::string_view name, const std::string& expected) {
  const Json* value = find(name);
  if (value == nullptr)
    fail(name, fmt::format("expected {}, found no such key", expected), "ridge assumes no value; add the key");
  return value;
}

bool KeyReader::has_key(std::string_view name) { return find(name) != nullptr; }

namespace {

// Returns the value, or nullopt if it is no whole number in this range.
std::optional<std::int64_t> to_integer(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number < min || number > max ? std::nullopt : std::optional(number);
}

}  // namespace

std::int64_t KeyReader::read_integer(std::string_view name, std::int64_t min, std::int64_t max) {
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  const Json* value = find_required(name, expected);
  if (value == nullptr) return min;
  if (const auto number = to_integer(*value, min, max)) return *number;
  fail(name, fmt::format("expected {}, found {}", expected, show_value(*value)));
  return min;
}

std::int64_t KeyReader::read_integer_or(std::string_view name, std::int64_t other, std::int64_t min, std::int64_t max) {
  return has_key(name) ? read_integer(name, min, max) : other;
}

double KeyReader::read_positive_or(std::string_view name, double other) {
  const Json* value = find(name);
  if (value == nullptr) return other;
  if (value->is_number() && value->get<double>() > 0) return value->get<double>();
  fail(name, fmt::format("expected a number above 0, found {}", show_value(*value)));
  return other;
}

bool KeyReader::read_flag_or(std::string_view name, bool other) {
  const Json* value = find(name);
  if (value == nullptr) return other;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, fmt::format("expected true or false, found {}", show_value(*value)));
  return other;
}

std::string KeyReader::read_text(std::string_view name) {
  const Json* value = find_required(name, "a string");
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail(name, fmt::format("expected a string, found {}", show_value(*value)));
  return {};
}

std::string KeyReader::read_text_or(std::string_view name, const std::string& other) {
  return has_key(name) ? read_text(name) : other;
}

std::vector<std::string> KeyReader::read_texts(std::string_view name) {
  const Json* value = find(name);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  if (value->is_array())
    for (const Json& element : *value)
      if (element.is_string()) texts.push_back(element.get<std::string>());
  if (!value->is_array() || texts.size() != value->size())
    fail(name, fmt::format("expected a list of strings, found {}", show_value(*value)));
  return texts;
}

std::vector<std::int64_t> KeyReader::read_integers(std::string_view name, std::int64_t max) {
  const Json* value = find(name);
  std::vector<std::int64_t> numbers;
  if (value == nullptr) return numbers;
  if (value->is_array())
    for (const Json& element : *value)
      if (const auto number = to_integer(element, 0, max)) numbers.push_back(*number);
  if (!value->is_array() || numbers.size() != value->size())
    fail(name, fmt::format("expected a list of whole numbers from 0 to {}, found {}", max, show_value(*value)));
  return numbers;
}

const Json* KeyReader::find_object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  fail(name, fmt::format("expected an object, found {}", show_value(*value)));
  return nullptr;
}

Status KeyReader::check_all_read(const std::string& owner) const {
  if (error_) return *error_;
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null() || contains(asked_, key) || is_without_influence(key)) continue;
    const std::string nearest = find_nearest(key, asked_);
    Error error = input_error(fmt::format("unknown key '{}' with value {}; {} has no such key",
                                          prefix_ + make_printable(key), show_value(value), owner),
                              nearest.empty() ? "it may change the architecture, so the model is not counted"
                                              : fmt::format("did you mean '{}'?", nearest));
    error.source = source_;
    return error;
  }
  return Done{};
}

}  // namespace ridge::model
