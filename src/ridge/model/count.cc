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

// Adds the indexer of sparse attention: its queries from the latent vector of queries, one key for all its heads with
// a norm that has a shift, and the weights of its heads.
void add_indexer(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const IndexerConfig& indexer = *config.indexer;
  PartBuilder part{tensors, "indexer"}, norms{tensors, "attention norms"};
  part.add_matrix(indexer.heads * indexer.head_size, config.latent->query_rank, false);
  part.add_matrix(indexer.head_size, config.width, false);
  tensors.push_back({.part = "indexer", .rows = indexer.heads, .columns = config.width});  // never quantized
  for (int i = 0; i < 2; ++i) norms.add_vector(indexer.head_size);
}

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
  if (config.indexer) add_indexer(config, tensors);
}

// Adds gated linear attention: queries, keys, values and an output gate; a decay and a rate per head; a convolution.
void add_gated_delta(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const RecurrentConfig& sizes = *config.recurrent;
  const std::int64_t values = sizes.heads * sizes.value_size;
  PartBuilder part{tensors, "linear attention"};
  part.add_matrix(sizes.convolved() + values, config.width, false);
  tensors.push_back({.part = part.part, .rows = 2 * sizes.heads, .columns = config.width});  // never quantized
  tensors.push_back({.part = part.part, .rows = sizes.convolved(), .columns = sizes.conv_size});
  for (int i = 0; i < 2; ++i) part.add_vector(sizes.heads);  // the decay's logarithm and bias
  part.add_matrix(config.width, values, false);
  PartBuilder{tensors, "attention norms"}.add_vector(sizes.value_size);
}

void add_convolution(const RecurrentConfig& sizes, PartBuilder& part) {
  part.tensors.push_back({.part = part.part, .rows = sizes.convolved(), .columns = sizes.conv_size});
  if (sizes.has_conv_bias) part.add_vector(sizes.convolved());
}

// Adds Mamba-2: gate, input, two vectors per group and a time step per head from one matrix.
void add_mamba2(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const RecurrentConfig& sizes = *config.recurrent;
  const std::int64_t channels = sizes.heads * sizes.value_size;
  PartBuilder part{tensors, "mamba"};
  part.add_matrix(channels + sizes.convolved() + sizes.heads, config.width, sizes.has_bias);
  add_convolution(sizes, part);
  for (int i = 0; i < 3; ++i) part.add_vector(sizes.heads);  // the decay's logarithm, the step's bias, the skip
  PartBuilder{tensors, "mamba norms"}.add_vector(channels);
  part.add_matrix(config.width, channels, sizes.has_bias);
}

// Adds Mamba-1: gate and input from one matrix, the time step of each channel through a few elements.
void add_mamba1(const ModelConfig& config, std::vector<WeightTensor>& tensors) {
  const RecurrentConfig& sizes = *config.recurrent;
  PartBuilder part{tensors, "mamba"};
  part.add_matrix(2 * sizes.heads, config.width, sizes.has_bias);
  add_convolution(sizes, part);
  part.add_matrix(sizes.step_rank + 2 * sizes.key_size, sizes.heads, false);
  part.add_matrix(sizes.heads, sizes.step_rank, true);
  tensors.push_back({.part = part.part, .rows = sizes.heads, .columns = sizes.key_size});  // the decay's logarithm
  part.add_vector(sizes.heads);                                                            // the skip
  part.add_matrix(config.width, sizes.heads, sizes.has_bias);
}

void add_attention(const ModelConfig& config, const LayerConfig& layer, std::vector<WeightTensor>& tensors) {
  if (config.latent) return add_latent_attention(config, tensors);
  const HeadConfig heads = heads_of(config, layer);
  const std::int64_t query_rows = config.heads * heads.size, key_rows = heads.kv_heads * heads.size;
  PartBuilder attention{tensors, "attention"};
  attention.add_matrix(config.has_output_gate ? 2 * query_rows : query_rows, config.width, config.has_qkv_bias);
  attention.add_matrix(key_rows, config.width, config.has_qkv_bias && config.has_key_bias);
  if (heads.has_values) attention.add_matrix(key_rows, config.width, config.has_qkv_bias);
  attention.add_matrix(config.width, query_rows, config.has_output_bias);
  if (config.has_sinks) attention.add_vector(config.heads);
  if (config.has_qk_norm)
    for (int i = 0; i < 2; ++i) PartBuilder{tensors, "attention norms"}.add_vector(heads.size);
  if (!config.audio) return;
  PartBuilder cross{tensors, "cross attention"};  // Its keys and values are parts of the encoder
  cross.add_matrix(query_rows, config.width, true);
  cross.add_matrix(config.width, query_rows, true);
}

void add_mixer(const ModelConfig& config, const LayerConfig& layer, std::vector<WeightTensor>& tensors) {
  switch (layer.mixer) {
    case Mixer::none: return;
    case Mixer::attention: return add_attention(config, layer, tensors);
    case Mixer::gated_delta: return add_gated_delta(config, tensors);
    case Mixer::mamba1: return add_mamba1(config, tensors);
    case Mixer::mamba2: return add_mamba2(config, tensors);
  }
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
  for (int i = 0; i < (config.is_gated ? 2 : 1); ++i)
    routed.add_experts(experts.width, config.width, experts.routed, experts.per_token, has_bias);
  routed.add_experts(config.width, experts.width, experts.routed, experts.per_token, has_bias);
  if (experts.shared_width > 0) add_feed_forward(config, "shared experts", experts.shared_width, tensors);
  if (experts.has_shared_gate) tensors.push_back({.part = "shared experts", .rows = 1, .columns = config.width});
  if (!experts.has_dense_part) return;
  add_feed_forward(config, "feed-forward", config.feed_forward_width, tensors);
  router.add_vector(config.width);    // scales the router's input
  router.add_vector(experts.routed);  // scales each expert's weight
}

std::vector<WeightTensor> list_layer_tensors(const ModelConfig& config, const LayerConfig& layer) {
  std::vector<WeightTensor> tensors;
  add_mixer(config, layer, tensors);
  if (layer.has_experts)
    add_experts(config, tensors);
  else if (layer.has_feed_forward)
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
  const bool is_quantized = quantization && (tensor.kind == WeightKind::expert ||
                                             (tensor.kind == WeightKind::matrix && !quantization->has_only_experts));
  if (!is_quantized) return {ceil_div(tensor.parameters() * dtype_bits(dtype), 8), 0};
  const QuantizedBytes one = count_quantized_bytes(*quantization, tensor.rows, tensor.columns);
  return {one.values * tensor.copies, one.scales * tensor.copies};
}

// Common names of the keys that decide about a part's size; those that a file does not have are left out.
std::vector<std::string> common_keys(const ModelConfig& config, std::string_view part) {
  if (part == "embedding") return {"vocab_size", "hidden_size"};
  if (part == "position embedding") return {"n_positions", "hidden_size"};
  if (part == "head") return {"vocab_size", "hidden_size", "tie_word_embeddings"};
  if (part == "cross attention") return {"hidden_size", "num_attention_heads"};
  if (part == "final norm") return {"model_type", "hidden_size"};
  if (part == "norms") return {"model_type", "hidden_size"};
  if (part == "attention" && config.latent)
    return {"hidden_size",      "num_attention_heads", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "qk_rope_head_dim",    "v_head_dim"};
  if (part == "attention")
    return {
        "model_type",     "hidden_size",      "num_attention_heads", "num_key_value_heads",        "head_dim",
        "attention_bias", "attn_output_gate", "global_head_dim",     "num_global_key_value_heads", "attention_k_eq_v"};
  if (part == "linear attention")
    return {"hidden_size",         "linear_num_key_heads",  "linear_num_value_heads",
            "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"};
  if (part == "mamba" || part == "mamba norms")
    return {"hidden_size",       "mamba_num_heads", "mamba_head_dim", "n_groups",      "ssm_state_size",
            "intermediate_size", "time_step_rank",  "conv_kernel",    "use_conv_bias", "use_bias"};
  if (part == "indexer") return {"hidden_size", "q_lora_rank", "index_n_heads", "index_head_dim"};
  if (part == "attention norms" && config.latent) return {"model_type", "q_lora_rank", "kv_lora_rank"};
  if (part == "attention norms") return {"model_type", "head_dim"};
  if (part == "feed-forward") return {"model_type", "hidden_size", "intermediate_size", "mlp_bias"};
  if (part == "router") return {"model_type", "hidden_size", "num_experts"};
  const std::string width =
      config.keys.contains("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
  if (part == "shared experts")
    return {"hidden_size", width, "n_shared_experts", "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size"};
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
  if (is_in_layers && (config.recurrent || config.full_heads))
    common.insert(common.end(), {"layer_types", "full_attention_interval", "hybrid_override_pattern"});
  constexpr std::array<std::string_view, 4> of_experts{"router", "routed experts", "shared experts", "feed-forward"};
  if (config.experts && contains(of_experts, part))
    common.insert(common.end(), {"first_k_dense_replace", "decoder_sparse_step", "mlp_only_layers",
                                 "interleave_moe_layer_step", "moe_layers", "enable_moe_block"});
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
std::int64_t cached_elements(const ModelConfig& config, const LayerConfig& layer) {
  if (layer.mixer != Mixer::attention) return 0;
  if (config.latent) return config.latent->rank + config.latent->rope_size;
  const HeadConfig heads = heads_of(config, layer);
  return 2 * heads.kv_heads * heads.size;
}

// Returns the keys of the indexer that a layer keeps for each token, in elements.
std::int64_t indexed_elements(const ModelConfig& config, const LayerConfig& layer) {
  return config.indexer && layer.mixer == Mixer::attention ? config.indexer->head_size : 0;
}

std::int64_t to_bytes(std::int64_t elements, DType dtype) { return ceil_div(elements * dtype_bits(dtype), 8); }

// Returns the bytes that a layer keeps for each sequence, however long: the state of the recurrence, and the inputs of
// the convolution that later tokens see.
std::int64_t count_state_bytes(const ModelConfig& config, const LayerConfig& layer, DType weights) {
  if (!is_recurrent(layer.mixer)) return 0;
  const RecurrentConfig& sizes = *config.recurrent;
  const DType activation = activation_dtype(weights);
  return to_bytes(sizes.heads * sizes.value_size * sizes.key_size, sizes.state_dtype.value_or(activation)) +
         to_bytes(sizes.convolved() * (sizes.conv_size - 1), activation);
}

// Returns the bytes of keys and values of an encoder's results that a layer keeps for each sequence.
std::int64_t count_cross_bytes(const ModelConfig& config, DType cache) {
  if (!config.audio) return 0;
  return to_bytes(2 * config.kv_heads * config.head_size * config.audio->vectors, cache);
}

std::string name_kind(const ModelConfig& config, const LayerConfig& layer) {
  if (layer.mixer == Mixer::gated_delta) return "linear";
  if (is_recurrent(layer.mixer)) return "mamba";
  if (config.latent) return "latent";
  if (layer.is_sliding) return config.has_chunks ? "chunked" : "sliding";
  return "full";
}

// Adds a layer to the cache of its kind.
void add_cache(const ModelConfig& config, const CountOptions& options, const LayerConfig& layer,
               const std::string& kind, std::int64_t elements, std::vector<CacheCount>& caches) {
  auto cache = std::find_if(caches.begin(), caches.end(), [&](const CacheCount& c) { return c.kind == kind; });
  if (cache == caches.end())
    cache = caches.insert(caches.end(), {.kind = kind, .window = layer.is_sliding ? config.window : 0});
  const std::int64_t bytes = to_bytes(elements, options.cache_dtype);
  std::int64_t state = kind == "indexer" ? 0 : count_state_bytes(config, layer, options.weight_dtype);
  if (kind == "cross") state = count_cross_bytes(config, options.cache_dtype);
  ++cache->layers;
  cache->bytes_per_token += bytes;
  cache->bytes_per_sequence += state;
  if (!options.context) return;
  const std::int64_t kept = layer.is_sliding ? std::min(*options.context, config.window) : *options.context;
  cache->bytes = cache->bytes.value_or(0) + (bytes * kept + state) * options.batch;
  cache->unwindowed_bytes = cache->unwindowed_bytes.value_or(0) + (bytes * *options.context + state) * options.batch;
}

std::vector<CacheCount> count_caches(const ModelConfig& config, const CountOptions& options) {
  std::vector<CacheCount> caches;
  for (const bool is_sliding : {false, true})
    for (const LayerConfig& layer : config.layers)
      if (layer.is_sliding == is_sliding && layer.mixer != Mixer::none)
        add_cache(config, options, layer, name_kind(config, layer), cached_elements(config, layer), caches);
  if (config.indexer)
    for (const LayerConfig& layer : config.layers)
      add_cache(config, options, layer, "indexer", indexed_elements(config, layer), caches);
  if (config.audio)
    for (const LayerConfig& layer : config.layers) add_cache(config, options, layer, "cross", 0, caches);
  return caches;
}

// Returns an upper limit on the parameters, as a double, so that the exact counts cannot overflow.
double bound_parameters(const ModelConfig& config) {
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = d(config.width);
  const double query = d(config.heads) * d(std::max(config.head_size, config.full_heads.value_or(HeadConfig{}).size));
  double layer = (config.has_output_gate ? 5 : 4) * (width + 1) * query +
                 3 * (width + 1) * (d(config.feed_forward_width) + 1) + 16 * width;
  if (config.audio) layer += 2 * (width + 1) * query;
  if (config.latent) {
    const double ranks = d(config.latent->query_rank) + d(config.latent->rank) + d(config.latent->rope_size);
    layer +=
        (ranks + 1) * (width + query + d(config.heads) * (d(config.latent->nope_size) + d(config.latent->value_size)));
    layer += width * d(config.heads) * d(config.latent->value_size);
  }
  if (config.experts)
    layer += (d(config.experts->routed) * (d(config.experts->width) + 2) + d(config.experts->shared_width) + 2) * 3 *
             (width + 2);
  if (config.indexer)
    layer += d(config.indexer->heads) * (d(config.indexer->head_size) + 1) * (width + d(config.latent->query_rank));
  if (config.recurrent) {
    const RecurrentConfig& sizes = *config.recurrent;
    const double values = d(sizes.heads) * d(sizes.value_size), keys = d(sizes.groups) * d(sizes.key_size);
    layer += (width + d(sizes.conv_size) + 4) * (3 * values + 2 * keys + 2 * d(sizes.heads)) +
             values * (2 * d(sizes.step_rank) + 3 * d(sizes.key_size));
  }
  return d(static_cast<std::int64_t>(config.layers.size())) * layer +
         width * (2 * d(config.vocabulary) + d(config.learned_positions) + 2);
}

// Returns an upper limit on the bytes of the cache, as a double.
double bound_cache(const ModelConfig& config, const CountOptions& options) {
  double elements = 0;
  for (const LayerConfig& layer : config.layers) {
    elements += static_cast<double>(cached_elements(config, layer) + indexed_elements(config, layer)) *
                static_cast<double>(options.context.value_or(1));
    if (config.audio)
      elements +=
          2 * static_cast<double>(config.kv_heads * config.head_size) * static_cast<double>(config.audio->vectors);
    if (!is_recurrent(layer.mixer)) continue;
    const RecurrentConfig& sizes = *config.recurrent;
    elements +=
        static_cast<double>(sizes.heads) * static_cast<double>(sizes.value_size) * static_cast<double>(sizes.key_size);
    elements += static_cast<double>(sizes.convolved()) * static_cast<double>(sizes.conv_size);
  }
  return 4 * elements * static_cast<double>(options.batch);
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
  const double cache = bound_cache(config, options);
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
  if (config.full_heads)
    of_cache.insert(of_cache.end(), {"global_head_dim", "num_global_key_value_heads", "attention_k_eq_v"});
  if (config.indexer) of_cache.emplace_back("index_head_dim");
  if (config.recurrent)
    of_cache.insert(of_cache.end(), {"layer_types", "full_attention_interval", "hybrid_override_pattern"});
  std::vector<std::string> of_context = of_cache;
  if (config.window > 0)
    of_context.insert(of_context.end(), {"model_type", "layer_types", "sliding_window", "sliding_window_pattern",
                                         "_sliding_window_pattern", "max_window_layers", "attention_chunk_size",
                                         "no_rope_layers", "no_rope_layer_interval"});
  count.keys = {{"parameters", all},
                {"active_parameters", all},
                {"weight_bytes", of_weights},
                {"kv_bytes_per_token", paths_in_file(config, of_cache)}};
  std::vector<std::string> of_state =
      common_keys(config, has_mixer(config, Mixer::gated_delta) ? "linear attention" : "mamba");
  of_state.insert(of_state.end(), {"layer_types", "full_attention_interval", "hybrid_override_pattern",
                                   "mamba_ssm_dtype", "mamba_ssm_cache_dtype", "num_hidden_layers"});
  if (config.recurrent) {
    of_context.insert(of_context.end(), of_state.begin(), of_state.end());
    count.keys.emplace_back("state_bytes_per_sequence", paths_in_file(config, of_state));
  }
  if (config.audio) {
    const std::vector<std::string> of_cross{"hidden_size", "num_hidden_layers", "max_source_positions"};
    of_context.emplace_back("max_source_positions");
    count.keys.emplace_back("state_bytes_per_sequence", paths_in_file(config, of_cross));
  }
  if (count.cache_bytes) count.keys.emplace_back("cache_bytes", paths_in_file(config, of_context));
}

}  // namespace

Result<std::int64_t> count_cache_bytes(const ModelConfig& config, const CountOptions& options) {
  RIDGE_TRY_STATUS(check_options(config, options));
  std::int64_t bytes = 0;
  for (const CacheCount& cache : count_caches(config, options)) bytes += cache.bytes.value_or(0);
  return bytes;
}

Result<ModelCount> count_model(const ModelConfig& config, const CountOptions& options) {
  RIDGE_TRY_STATUS(check_options(config, options));
  ModelCount count{.name = config.name, .model_type = config.model_type, .options = options, .notes = config.notes};
  if (config.quantization) count.quantization = describe(*config.quantization);
  const std::vector<WeightTensor> outer = list_outer_tensors(config);
  add_parts(config, {outer.begin(), outer.begin() + (config.learned_positions > 0 ? 2 : 1)}, 0, options.weight_dtype,
            count.parts);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const std::vector<WeightTensor> tensors = list_layer_tensors(config, layer);
    add_parts(config, tensors, 1, options.weight_dtype, count.parts);
    LayerCount one{.index = static_cast<std::int64_t>(i),
                   .kind = layer,
                   .cache = layer.mixer == Mixer::none ? "none" : name_kind(config, layer),
                   .cache_bytes_per_token = to_bytes(cached_elements(config, layer), options.cache_dtype) +
                                            to_bytes(indexed_elements(config, layer), options.cache_dtype),
                   .state_bytes_per_sequence = count_state_bytes(config, layer, options.weight_dtype) +
                                               count_cross_bytes(config, options.cache_dtype)};
    for (const WeightTensor& tensor : tensors) {
      one.parameters += tensor.parameters();
      one.active_parameters += tensor.active_parameters();
    }
    count.layers.push_back(one);
  }
  add_parts(config, {outer.begin() + (config.learned_positions > 0 ? 2 : 1), outer.end()}, 0, options.weight_dtype,
            count.parts);
  for (const EncoderPart& encoder : config.encoders)
    count.parts.push_back({.name = encoder.name,
                           .layers = encoder.layers,
                           .parameters = encoder.parameters,
                           .weight_bytes = to_bytes(encoder.parameters, activation_dtype(options.weight_dtype)),
                           .keys = encoder.keys,
                           .is_in_programs = false});
  for (const PartCount& part : count.parts) {
    count.parameters += part.parameters;
    count.active_parameters += part.active_parameters;
    count.weight_bytes += part.weight_bytes;
    count.scale_bytes += part.scale_bytes;
  }
  count.caches = count_caches(config, options);
  for (const CacheCount& cache : count.caches) {
    count.kv_bytes_per_token += cache.bytes_per_token;
    count.state_bytes_per_sequence += cache.bytes_per_sequence;
    if (!cache.bytes) continue;
    count.cache_bytes = count.cache_bytes.value_or(0) + *cache.bytes;
    count.unwindowed_cache_bytes = count.unwindowed_cache_bytes.value_or(0) + *cache.unwindowed_bytes;
  }
  list_keys(config, count);
  return count;
}

}  // namespace ridge::model
