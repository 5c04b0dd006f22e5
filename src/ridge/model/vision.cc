#include "ridge/model/vision.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/model/families.h"

namespace ridge::model {
namespace {

// Limits of values. No product of them exceeds 2^60.
constexpr std::int64_t max_vision_width = 1 << 16, max_hidden = 1 << 18, max_image = 1 << 16, max_pixels = 1 << 10,
                       max_merged = 1 << 4;

// Names of keys that differ between encoders.
struct SizeKeys {
  std::string_view layers = "num_hidden_layers", width = "hidden_size", heads = "num_attention_heads",
                   channels = "num_channels", activation = "hidden_act";
  const char* default_activation = "gelu_pytorch_tanh";
};

// Reads all sizes of layers and patches but the width of the feed-forward part.
VisionConfig read_narrow_sizes(KeyReader& reader, const SizeKeys& keys) {
  VisionConfig out{.layers = reader.read_integer(keys.layers, 1, max_layers),
                   .width = reader.read_integer(keys.width, 1, max_vision_width),
                   .heads = reader.read_integer(keys.heads, 1, max_heads),
                   .patch = reader.read_integer("patch_size", 1, max_pixels)};
  out.patch_values = reader.read_integer_or(keys.channels, 3, 1, max_pixels) * out.patch * out.patch;
  out.activation = reader.read_text_or(keys.activation, keys.default_activation);
  if (out.heads > 0 && out.width % out.heads != 0)
    reader.fail(keys.heads, fmt::format("expected a divisor of {}, which is {}, found {}", reader.path_of(keys.width),
                                        out.width, out.heads));
  return out;
}

VisionConfig read_sizes(KeyReader& reader, const SizeKeys& keys) {
  VisionConfig out = read_narrow_sizes(reader, keys);
  out.feed_forward = reader.read_integer("intermediate_size", 1, max_hidden);
  return out;
}

// Reads the size of images, whose patches have a position each.
void read_image_size(KeyReader& reader, VisionConfig& config) {
  config.image_size = reader.read_integer("image_size", config.patch, max_image);
  config.image_size -= config.image_size % config.patch;  // A convolution leaves the rest out
}

std::int64_t count_patches(const VisionConfig& config) {
  const std::int64_t side = config.image_size / config.patch;
  return side * side;
}

// Returns the parameters of all layers: queries, keys, values and results; two matrices; two norms with shifts.
std::int64_t count_layers(const VisionConfig& sizes) {
  const std::int64_t w = sizes.width, f = sizes.feed_forward;
  return sizes.layers * (4 * (w * w + w) + 2 * w * f + f + w + 4 * w);
}

// Gemma 3: SigLIP without a head, a position for each patch; a norm and a matrix to the language model.
VisionParts read_siglip(KeyReader& reader, std::int64_t text_width, std::int64_t image_tokens) {
  VisionConfig config = read_sizes(reader, {});
  read_image_size(reader, config);
  if (reader.read_flag_or("vision_use_head", false))
    reader.fail("vision_use_head", "expected false, found true", "the head of SigLIP is not counted yet");
  const std::int64_t w = config.width, patches = count_patches(config);
  while (image_tokens > 0 && config.merged * config.merged * image_tokens < patches) ++config.merged;
  if (image_tokens > 0 && config.merged * config.merged * image_tokens != patches)
    reader.fail("image_size", fmt::format("expected {} patches that form {} squares, one for each of the "
                                          "mm_tokens_per_image, found an image of {} pixels and patches of {}",
                                          patches, image_tokens, config.image_size, config.patch));
  config.text_width = text_width;
  const std::int64_t patch_parameters = w * config.patch_values + w;
  return {config,
          {{"vision encoder", config.layers, patch_parameters + patches * w + count_layers(config) + 2 * w},
           {"vision projector", 0, w * text_width + w}}};
}

void check_text_width(KeyReader& reader, std::string_view key, std::int64_t width, std::int64_t text_width) {
  if (width != text_width)
    reader.fail(key, fmt::format("expected {} as hidden_size of the language model, found {}", text_width, width));
}

// Qwen3-VL and Qwen3.5: patches of several frames, learned positions; patches are merged and projected, also those of
// the layers in deepstack_visual_indexes.
VisionParts read_qwen(KeyReader& reader, std::int64_t text_width) {
  VisionConfig config = read_sizes(reader, {.layers = "depth", .heads = "num_heads", .channels = "in_channels"});
  config.patch_values *= reader.read_integer("temporal_patch_size", 1, max_pixels);
  const std::int64_t w = config.width;
  config.positions = reader.read_integer("num_position_embeddings", 1, max_size);
  config.position_rule = VisionPositions::of_table;
  config.merged = reader.read_integer("spatial_merge_size", 1, max_merged);
  const std::int64_t merged = w * config.merged * config.merged;
  const std::int64_t out = reader.read_integer("out_hidden_size", 1, max_size);
  check_text_width(reader, "out_hidden_size", out, text_width);
  config.deep_layers = static_cast<std::int64_t>(reader.read_integers("deepstack_visual_indexes", max_layers).size());
  if (config.deep_layers > config.layers)
    reader.fail("deepstack_visual_indexes",
                fmt::format("expected at most {} entries as in depth, found {}", config.layers, config.deep_layers));
  config.inner_width = merged;
  config.text_width = text_width;
  config.has_rotary = true;
  config.projector = VisionProjector::merged;
  const std::int64_t patches = w * config.patch_values + w;
  const std::int64_t projector = merged * merged + merged + merged * out + out;
  return {config,
          {{"vision encoder", config.layers, patches + config.positions * w + count_layers(config)},
           {"vision projector", 0, 2 * w + projector + config.deep_layers * (2 * merged + projector)}}};
}

// Qwen2-VL: patches of several frames without biases and learned positions; patches are merged and projected.
VisionParts read_qwen2(KeyReader& reader, std::int64_t text_width) {
  const char* channels = reader.has_key("in_chans") ? "in_chans" : "in_channels";
  VisionConfig config = read_narrow_sizes(reader, {.layers = "depth",
                                                   .width = "embed_dim",
                                                   .heads = "num_heads",
                                                   .channels = channels,
                                                   .default_activation = "quick_gelu"});
  config.patch_values *= reader.read_integer("temporal_patch_size", 1, max_pixels);
  config.feed_forward = config.width * reader.read_integer("mlp_ratio", 1, max_merged);
  config.merged = reader.read_integer("spatial_merge_size", 1, max_merged);
  check_text_width(reader, "hidden_size", reader.read_integer("hidden_size", 1, max_size), text_width);
  if (reader.read_integer_or("spatial_patch_size", config.patch, 1, max_pixels) != config.patch)
    reader.fail("spatial_patch_size", fmt::format("expected {} as in {}", config.patch, reader.path_of("patch_size")));
  const std::int64_t w = config.width, merged = w * config.merged * config.merged;
  config.inner_width = merged;
  config.text_width = text_width;
  config.has_rotary = true;
  config.has_patch_bias = false;
  config.position_rule = VisionPositions::none;
  config.projector = VisionProjector::merged;
  return {config,
          {{"vision encoder", config.layers, w * config.patch_values + count_layers(config)},
           {"vision projector", 0, 2 * w + merged * merged + merged + merged * text_width + text_width}}};
}

// Gemma 4: patches without biases, a table of positions for rows and one for columns, layers as in the language model;
// the mean of a token's patches passes a matrix.
VisionParts read_gemma4(KeyReader& reader, std::int64_t text_width) {
  VisionConfig config = read_sizes(reader, {.activation = "hidden_activation"});
  const std::int64_t w = config.width, head = reader.read_integer_or("head_dim", w / config.heads, 1, max_size);
  if (head * config.heads != w)
    reader.fail("head_dim", fmt::format("expected {} as {} over {}, found {}", w / config.heads,
                                        reader.path_of("hidden_size"), reader.path_of("num_attention_heads"), head));
  if (reader.read_integer_or("num_key_value_heads", config.heads, 1, max_heads) != config.heads)
    reader.fail("num_key_value_heads",
                fmt::format("expected {} as in {}", config.heads, reader.path_of("num_attention_heads")));
  for (const char* flag : {"attention_bias", "use_clipped_linears"})
    if (reader.read_flag_or(flag, false))
      reader.fail(flag, "expected false, found true", "such matrices of an encoder are not counted yet");
  reader.skip("default_output_length");
  config.merged = reader.read_integer("pooling_kernel_size", 1, max_merged);
  config.positions = reader.read_integer("position_embedding_size", 1, max_size);
  config.has_scale = reader.read_flag_or("standardize", false);
  config.text_width = text_width;
  config.has_rotary = config.is_gated = true;
  config.has_patch_bias = false;
  config.position_rule = VisionPositions::of_row_and_column;
  config.projector = VisionProjector::averaged;
  const std::int64_t layer = 4 * w * w + 3 * w * config.feed_forward + 4 * w + 2 * head;
  return {
      config,
      {{"vision encoder", config.layers,
        w * config.patch_values + 2 * config.positions * w + config.layers * layer + (config.has_scale ? 2 * w : 0)},
       {"vision projector", 0, w * text_width}}};
}

// Llama 4: patches without biases and one more vector; norms before and after the layers; squares of patches side by
// side pass two matrices, then one to the language model.
VisionParts read_llama(KeyReader& reader, std::int64_t text_width) {
  VisionConfig config = read_sizes(reader, {});
  read_image_size(reader, config);
  const double ratio = reader.read_positive_or("pixel_shuffle_ratio", 0.5);
  config.merged = static_cast<std::int64_t>(std::llround(1 / ratio));
  if (static_cast<double>(config.merged) * ratio != 1)
    reader.fail("pixel_shuffle_ratio", fmt::format("expected 1 over a whole number, found {}", ratio));
  config.inner_width = reader.read_integer("projector_input_dim", 1, max_size);
  const std::int64_t out = reader.read_integer("projector_output_dim", 1, max_size);
  for (const char* same : {"projector_output_dim", "vision_output_dim"})
    if (reader.read_integer_or(same, out, 1, max_size) != config.inner_width)
      reader.fail(same, fmt::format("expected {} as in {}", config.inner_width, reader.path_of("projector_input_dim")));
  if (reader.read_flag_or("multi_modal_projector_bias", false))
    reader.fail("multi_modal_projector_bias", "expected false, found true", "this bias is not counted yet");
  if (reader.read_text_or("vision_feature_select_strategy", "default") != "default")
    reader.fail("vision_feature_select_strategy", "expected default");
  for (const char* unused : {"vision_feature_layer", "projector_dropout", "norm_eps", "rope_theta"})
    reader.skip(unused);
  config.text_width = text_width;
  config.has_class_token = config.has_rotary = true;
  config.has_patch_bias = false;
  config.projector = VisionProjector::shuffled;
  const std::int64_t w = config.width, inner = config.inner_width;
  const std::int64_t merged = w * config.merged * config.merged;
  if (merged != config.feed_forward)
    reader.fail("intermediate_size", fmt::format("expected {} as the elements of the patches of a token, found {}",
                                                 merged, config.feed_forward));
  return {config,
          {{"vision encoder", config.layers,
            w * config.patch_values + w + (count_patches(config) + 1) * w + 4 * w + count_layers(config)},
           {"vision projector", 0, merged * inner + inner * inner + inner * text_width}}};
}

}  // namespace

Result<std::optional<VisionParts>> read_vision(const Json& object, const std::string& source, const std::string& prefix,
                                               const std::string& outer_type, std::int64_t text_width,
                                               std::int64_t image_tokens) {
  KeyReader reader(object, source, prefix);
  const std::string type = reader.read_text_or("model_type", outer_type);
  VisionParts out;
  if (type == "siglip_vision_model")
    out = read_siglip(reader, text_width, image_tokens);
  else if (type == "llama4_vision_model")
    out = read_llama(reader, text_width);
  else if (type.starts_with("qwen3_vl") || type.starts_with("qwen3_5"))
    out = read_qwen(reader, text_width);
  else if (type == "qwen2_vl")
    out = read_qwen2(reader, text_width);
  else if (type == "gemma4_vision")
    out = read_gemma4(reader, text_width);
  else
    return std::optional<VisionParts>();
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("vision_config of '{}'", type)));
  for (EncoderPart& part : out.parts)
    for (const auto& [name, path] : reader.keys_read()) part.keys.push_back(path);
  return std::optional(std::move(out));
}

}  // namespace ridge::model
