#include "ridge/model/count.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/model/quantization.h"

namespace ridge::model {
namespace {

enum class WeightKind { plain, matrix, expert };  // A matrix or an expert's matrix may be quantized

// Equal tensors of one layer, or of the model outside of its layers.
struct WeightTensor {
  std::string_view part;
  WeightKind kind = WeightKind::plain;
  std::int64_t rows = 0, columns = 1;  // Outputs and inputs; a vector has one column
  std::int64_t copies = 1, active_copies = 1;

  std::int64_t parameters() const { return rows * columns * copies; }
  std::int64_t active_parameters() const { return rows * columns * active_copies; }
};

// Collects tensors of one part.
struct PartBuilder {
  std::vector<WeightTensor>& tensors;
  std::string_view part;

  void add_vector(std::int64_t size) { tensors.push_back({.part = part, .rows = size}); }
  void add_matrix(std::int64_t rows, std::int64_t columns, bool has_bias) {
    tensors.push_back({.part = part, .kind = WeightKind::matrix, .rows = rows, .columns = columns});
    if (has_bias) add_vector(rows);
  }
  void add_experts(std::int64_t rows, std::int64_t columns, std::int64_t copies, std::int64_t active, bool has_bias) {
    tensors.push_back({part, WeightKind::expert, rows, columns, copies, active});
    if (has_bias) tensors.push_back({part, WeightKind::plain, rows, 1, copies, active});
  }
};

void add_latent_attention(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const LatentConfig& latent = *config.latent;
  const std::int64_t query_rows = config.heads * config.head_size;
  PartBuilder attention{tensors, "attention"}, norms{tensors, "attention norms"};
  if (latent.query_rank > 0) {
    attention.add_matrix(latent.query_rank, config.width, false);
    norms.add_vector(latent.query_rank);
    attention.add_matrix(query_rows, latent.query_rank, false);
  } else {
    attention.add_matrix(query_rows, config.width, false);
  }
  attention.add_matrix(latent.rank + latent.rope_size, config.width, false);
  norms.add_vector(latent.rank);
  attention.add_matrix(config.heads * (latent.nope_size + latent.value_size), latent.rank, false);
  attention.add_matrix(config.width, config.heads * latent.value_size, false);
}

void add_attention(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  if (config.latent) return add_latent_attention(config, tensors);
  const std::int64_t query_rows = config.heads * config.head_size, key_rows = config.kv_heads * config.head_size;
  PartBuilder attention{tensors, "attention"};
  attention.add_matrix(query_rows, config.width, config.has_qkv_bias);
  for (int i = 0; i < 2; ++i) attention.add_matrix(key_rows, config.width, config.has_qkv_bias);  // keys, values
  attention.add_matrix(config.width, query_rows, config.has_output_bias);
  if (config.has_sinks) attention.add_vector(config.heads);
  if (config.has_qk_norm)
    for (int i = 0; i < 2; ++i) PartBuilder{tensors, "attention norms"}.add_vector(config.head_size);
}

void add_feed_forward(const ModelConfig& config, std::string_view part, std::int64_t width,
                      std::vector<WeightTensor>& tensors) {
  PartBuilder feed_forward{tensors, part};
  for (int i = 0; i < (config.is_gated ? 2 : 1); ++i)
    feed_forward.add_matrix(width, config.width, config.has_feed_forward_bias);
  feed_forward.add_matrix(config.width, width, config.has_feed_forward_bias);
}

void add_experts(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const ExpertConfig& experts = *config.experts;
  PartBuilder router{tensors, "router"}, routed{tensors, "routed experts"};
  tensors.push_back({.part = "router", .rows = experts.routed, .columns = config.width});  // never quantized
  if (experts.has_router_bias) router.add_vector(experts.routed);
  if (experts.has_score_correction) router.add_vector(experts.routed);
  const bool has_bias = config.has_feed_forward_bias;
  for (int i = 0; i < 2; ++i)
    routed.add_experts(experts.width, config.width, experts.routed, experts.per_token, has_bias);
  routed.add_experts(config.width, experts.width, experts.routed, experts.per_token, has_bias);
  if (experts.shared > 0) add_feed_forward(config, "shared experts", experts.width * experts.shared, tensors);
}

std::vector<WeightTensor> list_layer_tensors(const ModelConfig& config, const LayerConfig& layer) {
  std::vector<WeightTensor> tensors;
  add_attention(config, tensors);
  if (layer.has_experts)
    add_experts(config, tensors);
  else
    add_feed_forward(config, "feed-forward", config.feed_forward_width, tensors);
  for (int i = 0; i < config.norms_per_layer * (config.has_norm_bias ? 2 : 1); ++i)
    PartBuilder{tensors, "norms"}.add_vector(config.width);
  return tensors;
}

std::vector<WeightTensor> list_outer_tensors(const ModelConfig& config) {
  std::vector<WeightTensor> tensors{{.part = "embedding", .rows = config.vocabulary, .columns = config.width}};
  if (config.learned_positions > 0)
    tensors.push_back({.part = "position embedding", .rows = config.learned_positions, .columns = config.width});
  for (int i = 0; i < (config.has_norm_bias ? 2 : 1); ++i) PartBuilder{tensors, "final norm"}.add_vector(config.width);
  if (!config.is_tied) tensors.push_back({.part = "head", .rows = config.vocabulary, .columns = config.width});
  return tensors;
}

// Returns the bytes of all copies of the tensor.
QuantizedBytes count_bytes(const ModelConfig& config, const WeightTensor& tensor, DType dtype) {
  const auto& quantization = config.quantization;
  const bool is_quantized =
      quantization && (tensor.kind == WeightKind::expert ||
                       (tensor.kind == WeightKind::matrix && quantization->method != QuantizationMethod::mxfp4));
  if (!is_quantized) return {ceil_div(tensor.parameters() * dtype_bits(dtype), 8), 0};
  const QuantizedBytes one = count_quantized_bytes(*quantization, tensor.rows, tensor.columns);
  return {one.values * tensor.copies, one.scales * tensor.copies};
}

// Common names of the keys that decide about a part's size; those that a file does not have are left out.
std::vector<std::string> common_keys(const ModelConfig& config, std::string_view part) {
  if (part == "embedding") return {"vocab_size", "hidden_size"};
  if (part == "position embedding") return {"n_positions", "hidden_size"};
  if (part == "head") return {"vocab_size", "hidden_size", "tie_word_embeddings"};
  if (part == "final norm") return {"model_type", "hidden_size"};
  if (part == "norms") return {"model_type", "hidden_size"};
  if (part == "attention" && config.latent)
    return {"hidden_size",      "num_attention_heads", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "qk_rope_head_dim",    "v_head_dim"};
  if (part == "attention")
    return {"model_type", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "attention_bias"};
  if (part == "attention norms" && config.latent) return {"model_type", "q_lora_rank", "kv_lora_rank"};
  if (part == "attention norms") return {"model_type", "head_dim"};
  if (part == "feed-forward") return {"model_type", "hidden_size", "intermediate_size", "mlp_bias"};
  if (part == "router") return {"model_type", "hidden_size", "num_experts"};
  const std::string width =
      config.keys.contains("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
  if (part == "shared experts") return {"hidden_size", width, "n_shared_experts"};
  return {"hidden_size", width, "num_experts", "num_experts_per_tok"};
}

std::vector<std::string> paths_in_file(const ModelConfig& config, const std::vector<std::string>& common) {
  std::vector<std::string> paths;
  for (const std::string& name : common)
    if (const auto found = config.keys.find(name); found != config.keys.end()) paths.push_back(found->second);
  return paths;
}

// Adds the keys that decide how many layers have the part.
std::vector<std::string> keys_of_part(const ModelConfig& config, std::string_view part, bool is_in_layers) {
  std::vector<std::string> common = common_keys(config, part);
  if (is_in_layers) common.emplace_back("num_hidden_layers");
  constexpr std::array<std::string_view, 4> of_experts{"router", "routed experts", "shared experts", "feed-forward"};
  if (config.experts && contains(of_experts, part))
    common.insert(common.end(), {"first_k_dense_replace", "decoder_sparse_step", "mlp_only_layers"});
  return paths_in_file(config, common);
}

// Adds tensors that occur `layers` times to the parts; 0 means outside of the layers, once.
void add_parts(const ModelConfig& config, const std::vector<WeightTensor>& tensors, std::int64_t layers, DType dtype,
               std::vector<PartCount>& parts) {
  std::vector<std::string_view> seen;
  for (const WeightTensor& tensor : tensors) {
    auto part = std::find_if(parts.begin(), parts.end(), [&](const PartCount& p) { return p.name == tensor.part; });
    if (part == parts.end()) {
      parts.push_back({.name = std::string(tensor.part), .keys = keys_of_part(config, tensor.part, layers > 0)});
      part = parts.end() - 1;
    }
    if (!contains(seen, tensor.part)) part->layers += layers;
    seen.push_back(tensor.part);
    const std::int64_t times = std::max<std::int64_t>(layers, 1);
    const QuantizedBytes bytes = count_bytes(config, tensor, dtype);
    part->parameters += tensor.parameters() * times;
    part->active_parameters += tensor.active_parameters() * times;
    part->weight_bytes += (bytes.values + bytes.scales) * times;
    part->scale_bytes += bytes.scales * times;
  }
}

// Returns the elements that a layer keeps for each token.
std::int64_t cached_elements(const ModelConfig& config) {
  if (config.latent) return config.latent->rank + config.latent->rope_size;
  return 2 * config.kv_heads * config.head_size;
}

std::string name_kind(const ModelConfig& config, bool is_sliding) {
  if (config.latent) return "latent";
  return is_sliding ? "sliding" : "full";
}

std::vector<CacheCount> count_caches(const ModelConfig& config, const CountOptions& options, std::int64_t layer_bytes) {
  std::vector<CacheCount> caches;
  for (const bool is_sliding : {false, true}) {
    const auto layers = std::count_if(config.layers.begin(), config.layers.end(),
                                      [&](const LayerConfig& layer) { return layer.is_sliding == is_sliding; });
    if (layers == 0) continue;
    CacheCount cache{.kind = name_kind(config, is_sliding),
                     .layers = layers,
                     .window = is_sliding ? config.window : 0,
                     .bytes_per_token = layers * layer_bytes};
    if (options.context) {
      const std::int64_t kept = is_sliding ? std::min(*options.context, config.window) : *options.context;
      cache.bytes = cache.bytes_per_token * kept * options.batch;
      cache.unwindowed_bytes = cache.bytes_per_token * *options.context * options.batch;
    }
    caches.push_back(cache);
  }
  return caches;
}

// Returns an upper limit on the parameters, as a double, so that the exact counts cannot overflow.
double bound_parameters(const ModelConfig& config) {
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = d(config.width), query = d(config.heads) * d(config.head_size);
  double layer = 4 * (width + 1) * query + 3 * (width + 1) * (d(config.feed_forward_width) + 1) + 16 * width;
  if (config.latent) {
    const double ranks = d(config.latent->query_rank) + d(config.latent->rank) + d(config.latent->rope_size);
    layer +=
        (ranks + 1) * (width + query + d(config.heads) * (d(config.latent->nope_size) + d(config.latent->value_size)));
    layer += width * d(config.heads) * d(config.latent->value_size);
  }
  if (config.experts)
    layer +=
        (d(config.experts->routed) + d(config.experts->shared)) * (3 * (width + 2) * (d(config.experts->width) + 2));
  return d(static_cast<std::int64_t>(config.layers.size())) * layer +
         width * (2 * d(config.vocabulary) + d(config.learned_positions) + 2);
}

Status check_options(const ModelConfig& config, const CountOptions& options) {
  for (const auto& [option, dtype] :
       {std::pair("--dtype", options.weight_dtype), {"--cache-dtype", options.cache_dtype}})
    if (is_block_scaled(dtype) || dtype_bits(dtype) > 32 || dtype == DType::int32)
      return usage_error(fmt::format("expected a format of at most 32 bits without block scales for {}, found {}",
                                     option, dtype_name(dtype)),
                         "block scales of weights are read from quantization_config");
  constexpr std::int64_t max_context = std::int64_t{1} << 32, max_batch = 1 << 24;
  if (options.context && (*options.context < 1 || *options.context > max_context))
    return usage_error(fmt::format("expected --context from 1 to {} tokens, found {}", max_context, *options.context));
  if (options.batch < 1 || options.batch > max_batch)
    return usage_error(fmt::format("expected --batch from 1 to {} sequences, found {}", max_batch, options.batch));
  constexpr double max_parameters = 0x1p53, max_cache_bytes = 0x1p60;
  if (bound_parameters(config) > max_parameters)
    return input_error(
        fmt::format("{}: expected at most 2^53 parameters, found some {:.3g}", config.name, bound_parameters(config)));
  const double cache = static_cast<double>(cached_elements(config)) * static_cast<double>(config.layers.size()) * 4 *
                       static_cast<double>(options.context.value_or(1)) * static_cast<double>(options.batch);
  if (cache > max_cache_bytes)
    return input_error(fmt::format("{}: expected at most 2^60 bytes of cache, found up to {:.3g}", config.name, cache));
  return Done{};
}

void list_keys(const ModelConfig& config, ModelCount& count) {
  std::vector<std::string> all;
  for (const PartCount& part : count.parts)
    for (const std::string& key : part.keys)
      if (!contains(all, key)) all.push_back(key);
  std::vector<std::string> of_weights = all;
  for (const std::string& key : paths_in_file(config, {"quantization_config"})) of_weights.push_back(key);
  std::vector<std::string> of_cache{"num_hidden_layers"};
  if (config.latent)
    of_cache.insert(of_cache.end(), {"kv_lora_rank", "qk_rope_head_dim"});
  else if (config.keys.contains("head_dim"))
    of_cache.insert(of_cache.end(), {"num_key_value_heads", "head_dim"});
  else
    of_cache.insert(of_cache.end(), {"num_key_value_heads", "hidden_size", "num_attention_heads"});
  std::vector<std::string> of_context = of_cache;
  if (config.window > 0)
    of_context.insert(of_context.end(), {"model_type", "layer_types", "sliding_window", "sliding_window_pattern",
                                         "_sliding_window_pattern", "max_window_layers"});
  count.keys = {{"parameters", all},
                {"active_parameters", all},
                {"weight_bytes", of_weights},
                {"kv_bytes_per_token", paths_in_file(config, of_cache)}};
  if (count.cache_bytes) count.keys.emplace_back("cache_bytes", paths_in_file(config, of_context));
}

}  // namespace

Result<ModelCount> count_model(const ModelConfig& config, const CountOptions& options) {
  RIDGE_TRY_STATUS(check_options(config, options));
  ModelCount count{.name = config.name, .model_type = config.model_type, .options = options, .notes = config.notes};
  if (config.quantization) count.quantization = describe(*config.quantization);
  const std::int64_t layer_bytes = ceil_div(cached_elements(config) * dtype_bits(options.cache_dtype), 8);
  const std::vector<WeightTensor> outer = list_outer_tensors(config);
  add_parts(config, {outer.begin(), outer.begin() + (config.learned_positions > 0 ? 2 : 1)}, 0, options.weight_dtype,
            count.parts);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const std::vector<WeightTensor> tensors = list_layer_tensors(config, layer);
    add_parts(config, tensors, 1, options.weight_dtype, count.parts);
    LayerCount one{.index = static_cast<std::int64_t>(i),
                   .is_sliding = layer.is_sliding,
                   .has_experts = layer.has_experts,
                   .cache_bytes_per_token = layer_bytes};
    for (const WeightTensor& tensor : tensors) {
      one.parameters += tensor.parameters();
      one.active_parameters += tensor.active_parameters();
    }
    count.layers.push_back(one);
  }
  add_parts(config, {outer.begin() + (config.learned_positions > 0 ? 2 : 1), outer.end()}, 0, options.weight_dtype,
            count.parts);
  for (const PartCount& part : count.parts) {
    count.parameters += part.parameters;
    count.active_parameters += part.active_parameters;
    count.weight_bytes += part.weight_bytes;
    count.scale_bytes += part.scale_bytes;
  }
  count.caches = count_caches(config, options, layer_bytes);
  for (const CacheCount& cache : count.caches) {
    count.kv_bytes_per_token += cache.bytes_per_token;
    if (!cache.bytes) continue;
    count.cache_bytes = count.cache_bytes.value_or(0) + *cache.bytes;
    count.unwindowed_cache_bytes = count.unwindowed_cache_bytes.value_or(0) + *cache.unwindowed_bytes;
  }
  list_keys(config, count);
  return count;
}

}  // namespace ridge::model
