#include "ridge/model/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ridge/base/ceil_div.h"
#include "ridge/model/activations.h"
#include "ridge/model/count.h"
#include "ridge/model/layer_programs.h"

namespace ridge::model {
namespace {

Result<std::string> find_function(const ModelConfig& config) {
  if (config.activation.empty()) return std::string(config.is_gated ? "silu({0})" : "gelu_tanh({0})");
  return find_activation(config.activation, config.name);
}

// Returns the notation's format of quantized matrices.
Result<DType> find_quantized_dtype(const ModelConfig& config) {
  const QuantizationConfig& quantization = *config.quantization;
  switch (quantization.method) {
    case QuantizationMethod::fp8: return DType::e4m3;
    case QuantizationMethod::mxfp4: return DType::mxfp4;
    case QuantizationMethod::int8: return DType::int8;
    case QuantizationMethod::gptq:
    case QuantizationMethod::awq:
    case QuantizationMethod::packed:
    case QuantizationMethod::nf4: break;
  }
  if (quantization.bits == 4) return DType::int4;
  if (quantization.bits == 8) return DType::int8;
  return input_error(fmt::format("{}: expected weights of 4 or 8 bits, found {}", config.name, quantization.bits),
                     "the notation has no such format");
}

Status check_sizes(const StepOptions& options) {
  constexpr std::int64_t max_context = std::int64_t{1} << 32, max_batch = 1 << 24, max_chips = 1 << 16;
  const auto check = [](std::string_view option, std::int64_t value, std::int64_t max) -> Status {
    if (value >= 1 && value <= max) return Done{};
    return usage_error(fmt::format("expected {} from 1 to {}, found {}", option, max, value));
  };
  RIDGE_TRY_STATUS(check("--batch", options.batch, max_batch));
  RIDGE_TRY_STATUS(check("--context", options.context, max_context));
  RIDGE_TRY_STATUS(check("--tp", options.layout.tensor, max_chips));
  RIDGE_TRY_STATUS(check("--ep", options.layout.expert, max_chips));
  RIDGE_TRY_STATUS(check("--dp", options.layout.data, max_chips));
  RIDGE_TRY_STATUS(check("--pp", options.layout.pipeline, max_chips));
  if (options.layout.data > options.batch)
    return usage_error(
        fmt::format("expected --dp of at most --batch, which is {}, found {}", options.batch, options.layout.data));
  return check("--new-tokens", options.new_tokens, options.context);
}

Status divide(const ModelConfig& config, std::string_view what, std::int64_t whole, std::string_view option,
              std::int64_t chips, std::int64_t& part) {
  part = whole / chips;
  if (part * chips == whole) return Done{};
  return input_error(
      fmt::format("{}: expected {} that divides the {} {}, found {}", config.name, option, whole, what, chips));
}

// Returns the columns with those that fill a block of elements with a common scale.
std::int64_t pad_to_block(std::int64_t columns, DType dtype) {
  return ceil_div(columns, dtype_info(dtype).block) * dtype_info(dtype).block;
}

// Returns how many chips divide the columns of an expert.
std::int64_t count_chips_of_expert(const ChipLayout& layout) {
  return layout.sends_rows_to_experts() ? 1 : layout.tensor / layout.expert;
}

// Divides experts and their columns among the chips.
Status divide_experts(StepSizes& sizes) {
  const ModelConfig& config = sizes.config;
  const ChipLayout& layout = sizes.options.layout;
  if (!config.experts && layout.expert > 1)
    return input_error(
        fmt::format("{}: expected --ep 1 for a model without experts, found {}", config.name, layout.expert));
  if (!config.experts) return Done{};
  if ((layout.sends_rows_to_experts() ? layout.data : layout.tensor) % layout.expert != 0)
    return usage_error(
        fmt::format("expected --ep that divides --tp, or that divides --dp with --tp 1; found "
                    "--tp {} --ep {} --dp {}",
                    layout.tensor, layout.expert, layout.data));
  RIDGE_TRY_STATUS(divide(config, "experts", config.experts->routed, "--ep", layout.expert, sizes.experts));
  RIDGE_TRY_STATUS(divide(config, "columns of an expert", config.experts->width,
                          layout.expert > 1 ? "--tp / --ep" : "--tp", count_chips_of_expert(layout),
                          sizes.expert_width));
  if (is_block_scaled(sizes.expert)) sizes.expert_width = pad_to_block(sizes.expert_width, sizes.expert);
  return divide(config, "columns of the shared experts", config.experts->shared_width, "--tp", layout.tensor,
                sizes.shared_width);
}

// Checks that the chips divide the key heads, or that each key head is on a whole number of chips.
Status check_key_heads(const ModelConfig& config, std::int64_t kv_heads, std::int64_t chips) {
  if (kv_heads > 0 && kv_heads < chips && chips % kv_heads == 0) return Done{};
  std::int64_t unused = 0;
  return divide(config, "key heads", kv_heads, "--tp", chips, unused);
}

// Checks the chips of layers with a recurrence.
Status check_recurrent(const ModelConfig& config, const StepOptions& options) {
  if (!config.recurrent) return Done{};
  const std::int64_t chips = options.layout.tensor;
  if (has_mixer(config, Mixer::mamba1) && chips > 1)
    return input_error(fmt::format("{}: expected --tp 1, found {}", config.name, chips),
                       "chips that divide the channels of Mamba-1 must add partial sums inside the layer");
  std::int64_t unused = 0;
  return divide(config, has_mixer(config, Mixer::mamba2) ? "groups of heads" : "key heads of linear attention",
                config.recurrent->groups, "--tp", chips, unused);
}

// Divides heads and widths among the chips.
Status divide_among_chips(StepSizes& sizes) {
  const ModelConfig& config = sizes.config;
  const std::int64_t chips = sizes.options.layout.tensor;
  if (has_mixer(config, Mixer::attention)) {
    RIDGE_TRY_STATUS(divide(config, "heads", config.heads, "--tp", chips, sizes.heads));
    RIDGE_TRY_STATUS(check_key_heads(config, config.kv_heads, chips));
    if (config.full_heads) RIDGE_TRY_STATUS(check_key_heads(config, config.full_heads->kv_heads, chips));
  }
  RIDGE_TRY_STATUS(check_recurrent(config, sizes.options));
  const bool has_dense = std::any_of(config.layers.begin(), config.layers.end(), [](const LayerConfig& layer) {
    return layer.has_feed_forward && !layer.has_experts;
  });
  if (has_dense || (config.experts && config.experts->has_dense_part))
    RIDGE_TRY_STATUS(divide(config, "columns of the feed-forward part", config.feed_forward_width, "--tp", chips,
                            sizes.feed_forward));
  RIDGE_TRY_STATUS(divide_experts(sizes));
  if (const auto layers = std::ssize(config.layers); sizes.options.layout.pipeline > layers)
    return input_error(fmt::format("{}: expected --pp of at most {}, the layers of the model, found {}", config.name,
                                   layers, sizes.options.layout.pipeline));
  sizes.batch = ceil_div(sizes.options.batch, sizes.options.layout.data);
  sizes.vocabulary = ceil_div(config.vocabulary, chips);
  return Done{};
}

Result<StepSizes> make_sizes(const ModelConfig& config, const StepOptions& options) {
  RIDGE_TRY_STATUS(check_sizes(options));
  if (config.learned_positions > 0 && options.context > config.learned_positions)
    return input_error(fmt::format("{}: expected --context of at most {}, the positions that the model has, found {}",
                                   config.name, config.learned_positions, options.context));
  StepSizes sizes{.config = config, .options = options};
  sizes.activation = activation_dtype(options.weight_dtype);
  sizes.parameter = sizes.matrix = sizes.expert = options.weight_dtype;
  if (config.quantization) {
    RIDGE_TRY(quantized, find_quantized_dtype(config));
    sizes.expert = quantized;
    if (!config.quantization->has_only_experts) sizes.matrix = quantized;
  }
  RIDGE_TRY(function, find_function(config));
  sizes.function = function;
  sizes.rows = options.new_tokens > 1 ? "B, S" : "B";
  RIDGE_TRY_STATUS(divide_among_chips(sizes));
  return sizes;
}

// Adds the dimensions that every part has.
void add_rows(ProgramWriter& out, const StepSizes& sizes) {
  out.add_dimension("B", sizes.batch);
  if (sizes.options.new_tokens > 1) out.add_dimension("S", sizes.options.new_tokens);
  out.add_dimension("D", sizes.config.width);
}

void add_embedding(ProgramWriter& out, const StepSizes& sizes, std::string_view result) {
  const std::string dims = sizes.rows_and("D");
  out.add_dimension("V", sizes.vocabulary);
  out.begin_module("embedding");
  out.add_input("data", "ids", DType::int32, sizes.rows);
  out.add_parameter("embedding", sizes.parameter, "V, D");
  if (sizes.config.learned_positions == 0)
    return out.add_stored(result, sizes.activation, dims, "gather(embedding, ids over V)");
  out.add_dimension("Y", sizes.config.learned_positions);
  out.add_input("data", "t", DType::int32, sizes.rows);
  out.add_parameter("positions", sizes.parameter, "Y, D");
  out.add("tokens", dims, "gather(embedding, ids over V)");
  out.add("places", dims, "gather(positions, t over Y)");
  out.add_stored(result, sizes.activation, dims, "tokens + places");
}

// Returns the sizes of the head, which computes logits of each sequence's last token, or of every new token.
StepSizes make_head_sizes(const StepSizes& sizes) {
  StepSizes out = sizes;
  if (!sizes.options.has_all_logits) out.rows = "B";
  return out;
}

void add_head(ProgramWriter& out, const StepSizes& sizes) {
  const std::string_view weights = sizes.config.is_tied ? "embedding" : "head";
  const StepSizes head = make_head_sizes(sizes);
  const std::string dims = head.rows_and("V");
  out.add_dimension("V", sizes.vocabulary);
  out.begin_module("head");
  add_norm(out, head, "h$", "x$", "f");
  out.add_parameter(weights, sizes.parameter, "V, D");
  const double cap = sizes.config.logit_softcap;
  const std::string product =
      fmt::format("{} * {}", add_operand(out, sizes.parameter, "h$", head.rows_and("D")), weights);
  if (cap == 0) return out.add_stored("logits", sizes.activation, dims, product);
  add_product(out, sizes, sizes.parameter, "logits0", dims, product);
  out.add_stored("logits", sizes.activation, dims, fmt::format("{0:.10g} * tanh(logits0 / {0:.10g})", cap));
}

void add_layer(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, std::string_view result) {
  if (layer.mixer != Mixer::none) add_mixer(out, sizes, layer, result);
  if (layer.has_feed_forward) add_feed_forward(out, sizes, layer, result);
}

// Returns what distinguishes the layer's mixer from those of other layers, or nothing.
std::string name_mixer(const ModelConfig& config, const LayerConfig& layer) {
  const auto has_other = [&](const auto& differs) {
    return std::any_of(config.layers.begin(), config.layers.end(), differs);
  };
  const bool has_windows = has_other([&](const LayerConfig& other) { return other.is_sliding != layer.is_sliding; });
  const bool has_mixers = has_other([&](const LayerConfig& other) { return other.mixer != layer.mixer; });
  if (has_windows && layer.is_sliding) return config.has_chunks ? ", chunked" : ", sliding";
  if (has_windows) return ", full";
  if (layer.mixer == Mixer::gated_delta) return ", linear attention";
  if (is_recurrent(layer.mixer)) return ", mamba";
  return has_mixers && layer.mixer == Mixer::attention ? ", attention" : "";
}

std::string name_layer(const ModelConfig& config, const LayerConfig& layer) {
  const bool has_both_networks = std::any_of(config.layers.begin(), config.layers.end(), [&](const LayerConfig& other) {
    return other.has_feed_forward && other.has_experts != layer.has_experts;
  });
  std::string out = "layer" + name_mixer(config, layer);
  if (layer.has_feed_forward && (has_both_networks || layer.mixer == Mixer::none))
    out += layer.has_experts ? ", experts" : ", dense";
  return out;
}

// Kinds of layers, each with its number of layers: those without experts and those with full attention first.
std::vector<std::pair<LayerConfig, std::int64_t>> list_kinds(const ModelConfig& config) {
  std::vector<std::pair<LayerConfig, std::int64_t>> kinds;
  for (const LayerConfig& layer : config.layers) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == layer; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {layer, 0});
    ++kind->second;
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const LayerConfig& layer) {
      return std::tuple(layer.has_experts, layer.is_sliding, layer.mixer);
    };
    return rank(a.first) < rank(b.first);
  });
  return kinds;
}

// Returns a program that collects what the chips of tensor parallelism have: sums of partial results, or parts of rows.
std::string write_collective(const StepSizes& sizes, std::string_view dims, bool is_sum) {
  ProgramWriter out;
  out.add_dimension("B", sizes.batch);
  if (dims.find('S') != std::string_view::npos) out.add_dimension("S", sizes.options.new_tokens);
  if (is_sum)
    out.add_dimension("D", sizes.config.width);
  else
    out.add_dimension("V", sizes.vocabulary * sizes.options.layout.tensor);
  out.add_input("data", "part", sizes.activation, is_sum ? std::string(dims) : std::string(dims) + "_C");
  std::string text = out.text();
  if (is_sum) text.insert(text.size() - 1, "{U_C}");
  return fmt::format("mesh C = {}\n{}all: {}[{}] = part\n", sizes.options.layout.tensor, text,
                     dtype_name(sizes.activation), dims);
}

// Returns the tokens that a layer with sliding attention keeps after the step, as a part of those that it reads. With
// chunks, memory for a whole chunk is kept.
double count_kept_share(const StepSizes& sizes) {
  const std::int64_t keys = count_keys(sizes, true);
  const std::int64_t kept = std::min(sizes.config.has_chunks ? sizes.options.context : keys, sizes.config.window);
  return static_cast<double>(kept) / static_cast<double>(keys);
}

// Returns the sums over chips that a layer needs: one after its mixer and one after each network with its own norm.
std::size_t count_sums(const StepSizes& sizes, const LayerConfig& layer) {
  std::size_t count = layer.mixer == Mixer::none ? 0 : 1;
  if (sizes.config.audio) ++count;
  if (layer.has_feed_forward) ++count;
  if (layer.has_experts && sizes.config.experts->has_dense_part) ++count;
  return count;
}

// Returns a program that sends each row to the chips of its experts; the results return in the same way.
std::string write_exchange(const StepSizes& sizes) {
  const std::int64_t chips = sizes.options.layout.expert;
  return fmt::format("mesh C = {0}\ndims N = {1}, D = {2}\ndata part: {3}[N, D_C]\nall: {3}[N_C, D] = part\n", chips,
                     count_rows(sizes) * sizes.config.experts->per_token * chips, sizes.config.width,
                     dtype_name(sizes.activation));
}

PartProgram finish_part(const ProgramWriter& out, std::string name, std::int64_t count) {
  return {.name = std::move(name), .count = count, .text = out.text(), .modules = out.modules()};
}

PartProgram write_layer(const StepSizes& sizes, const LayerConfig& layer, std::int64_t count) {
  ProgramWriter out;
  add_rows(out, sizes);
  out.add_input("data", "x", sizes.activation, sizes.rows_and("D"));
  add_layer(out, sizes, layer, "z");
  PartProgram part = finish_part(out, name_layer(sizes.config, layer), count);
  if (layer.is_sliding) part.kept_cache = count_kept_share(sizes);
  if (sizes.options.layout.tensor > 1)
    part.collectives.assign(count_sums(sizes, layer), write_collective(sizes, sizes.rows_and("D"), true));
  if (layer.has_experts && sizes.sends_rows_to_experts()) part.collectives.assign(2, write_exchange(sizes));
  return part;
}

PartProgram write_embedding(const StepSizes& sizes) {
  ProgramWriter out;
  add_rows(out, sizes);
  add_embedding(out, sizes, "x");
  PartProgram part = finish_part(out, "embedding", 1);
  if (sizes.options.layout.tensor > 1) part.collectives.push_back(write_collective(sizes, sizes.rows_and("D"), true));
  return part;
}

PartProgram write_head(const StepSizes& sizes) {
  const StepSizes head = make_head_sizes(sizes);
  ProgramWriter out;
  out.add_dimension("B", sizes.batch);
  if (head.rows != "B") out.add_dimension("S", sizes.options.new_tokens);
  out.add_dimension("D", sizes.config.width);
  out.add_input("data", "x", sizes.activation, head.rows_and("D"));
  add_head(out, sizes);
  PartProgram part = finish_part(out, "head", 1);
  part.shares_embedding = sizes.config.is_tied;
  if (sizes.options.layout.tensor > 1) part.collectives.push_back(write_collective(sizes, head.rows_and("V"), false));
  return part;
}

// Returns sentences about what the programs leave out.
std::vector<std::string> note_omissions(const StepSizes& sizes) {
  const ModelConfig& config = sizes.config;
  const StepOptions& options = sizes.options;
  std::vector<std::string> notes;
  if (config.max_positions > 0 && options.context > config.max_positions)
    notes.push_back(fmt::format("the context of {} tokens is longer than max_position_embeddings = {}", options.context,
                                config.max_positions));
  if (config.rotary_base != std::floor(config.rotary_base))
    notes.push_back(fmt::format("rope_theta = {} is rounded in the programs", config.rotary_base));
  if (config.rotary_part < 1)
    notes.push_back(fmt::format(
        "the programs turn whole heads to their positions, the model a part (partial_rotary_factor = {:.4g})",
        config.rotary_part));
  if (config.indexer)
    notes.emplace_back("the programs leave out rotary positions of the indexer and the scale of its scores");
  if (config.norms_per_layer >= 4)
    notes.emplace_back(
        "the programs leave out that the embedding is scaled, that 1 is added to each norm's weight, and "
        "query_pre_attn_scalar");
  if (config.experts && config.experts->has_score_correction)
    notes.emplace_back("the programs leave out groups of experts (n_group) and routed_scaling_factor");
  if (sizes.divides_experts_of_all_tokens()) {
    const ExpertRouting routing = make_routing(sizes);
    notes.push_back(fmt::format(
        "experts are those of the busiest chip: tokens that choose at random give it at most {:.1f} of {} rows on "
        "average, and {:.1f} are the mean",
        bound_busiest_rows(routing), routing.tokens * routing.per_token,
        static_cast<double>(routing.tokens * routing.per_token) / static_cast<double>(routing.groups)));
  }
  if (options.layout.tensor > 1)
    notes.emplace_back(
        "each chip's program adds residuals and biases to its part of a sum; in an engine one chip does");
  if (config.experts && config.quantization && config.quantization->method == QuantizationMethod::mxfp4 &&
      config.experts->width / count_chips_of_expert(options.layout) % dtype_info(DType::mxfp4).block != 0)
    notes.emplace_back("a chip's columns of experts are filled up to whole blocks of mxfp4");
  if (has_mixer(config, Mixer::gated_delta) && options.new_tokens > 1) notes.emplace_back(delta_chunk_note);
  if (config.has_sinks) notes.emplace_back("the learned score of each head (a sink) is not in the programs");
  if (config.quantization && config.quantization->method != QuantizationMethod::mxfp4)
    notes.emplace_back("scales and zero points of quantized weights are counted as memory, not in the programs");
  return notes;
}

// Returns lines at the start of a program whose results are not the model's, or nothing.
std::string comment_omissions(const StepOptions& options, bool has_delta) {
  if (!has_delta || options.new_tokens == 1) return {};
  return fmt::format("# Not in this program: {}\n", delta_chunk_note);
}

}  // namespace

Status check_layout(const ModelConfig& config, const StepOptions& options) {
  RIDGE_TRY_STATUS(make_sizes(config, options));
  return Done{};
}

Result<ModelPrograms> write_programs(const ModelConfig& config, const StepOptions& options) {
  RIDGE_TRY(sizes, make_sizes(config, options));
  ModelPrograms out{.parts = {write_embedding(sizes)}, .notes = note_omissions(sizes)};
  out.layer_parts.resize(config.layers.size());
  for (const auto& [layer, count] : list_kinds(config)) {
    for (std::size_t i = 0; i < config.layers.size(); ++i)
      if (config.layers[i] == layer) out.layer_parts[i] = out.parts.size();
    out.parts.push_back(write_layer(sizes, layer, count));
  }
  out.parts.push_back(write_head(sizes));
  return out;
}

Result<std::string> write_layer_program(const ModelConfig& config, const StepOptions& options, std::int64_t layer) {
  RIDGE_TRY(sizes, make_sizes(config, options));
  const auto count = static_cast<std::int64_t>(config.layers.size());
  if (layer < 0 || layer >= count)
    return usage_error(fmt::format("expected --layer from 0 to {}, found {}", count - 1, layer));
  const LayerConfig& kind = config.layers[static_cast<std::size_t>(layer)];
  return comment_omissions(options, kind.mixer == Mixer::gated_delta) + write_layer(sizes, kind, 1).text;
}

Result<std::string> write_model_program(const ModelConfig& config, const StepOptions& options) {
  if (options.layout.chips() > 1)
    return usage_error("expected --layer with --print and several chips", "the program of all layers is for one chip");
  RIDGE_TRY(sizes, make_sizes(config, options));
  ProgramWriter out;
  add_rows(out, sizes);
  add_embedding(out, sizes, "x_0");
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    out.set_suffix(fmt::format("_{}", i));
    out.add_comment(fmt::format("Layer {}", i));
    add_layer(out, sizes, config.layers[i], fmt::format("x_{}", i + 1));
  }
  out.add_comment("Head");
  out.set_suffix("");
  // The head reads the last of each sequence's new tokens.
  const std::string last = fmt::format("x_{}", config.layers.size());
  if (options.new_tokens == 1 || options.has_all_logits) {
    out.add("x", sizes.rows_and("D"), last);
  } else {
    out.add("x", "B, D", fmt::format("sum(where(index(S) == size(S) - 1, {}, 0) over S)", last));
  }
  add_head(out, sizes);
  return comment_omissions(options, has_mixer(config, Mixer::gated_delta)) + out.text();
}

}  // namespace ridge::model
