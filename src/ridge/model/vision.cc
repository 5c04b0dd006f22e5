#include "ridge/model/vision.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/model/families.h"

namespace ridge::model {
namespace {

// Limits of values. No product of them exceeds 2^60.
constexpr std::int64_t max_vision_width = 1 << 16, max_hidden = 1 << 18, max_image = 1 << 16, max_pixels = 1 << 10,
                       max_merged = 1 << 4;

VisionConfig read_sizes(KeyReader& reader, std::string_view layers, std::string_view heads, std::string_view channels) {
  VisionConfig out{.layers = reader.read_integer(layers, 1, max_layers),
                   .width = reader.read_integer("hidden_size", 1, max_vision_width),
                   .heads = reader.read_integer(heads, 1, max_heads),
                   .feed_forward = reader.read_integer("intermediate_size", 1, max_hidden),
                   .patch = reader.read_integer("patch_size", 1, max_pixels)};
  out.patch_values = reader.read_integer_or(channels, 3, 1, max_pixels) * out.patch * out.patch;
  out.activation = reader.read_text_or("hidden_act", "gelu_pytorch_tanh");
  if (out.heads > 0 && out.width % out.heads != 0)
    reader.fail(heads, fmt::format("expected a divisor of {}, which is {}, found {}", reader.path_of("hidden_size"),
                                   out.width, out.heads));
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
  VisionConfig config = read_sizes(reader, "num_hidden_layers", "num_attention_heads", "num_channels");
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
  VisionConfig config = read_sizes(reader, "depth", "num_heads", "in_channels");
  config.patch_values *= reader.read_integer("temporal_patch_size", 1, max_pixels);
  const std::int64_t w = config.width;
  config.positions = reader.read_integer("num_position_embeddings", 1, max_size);
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

// Llama 4: patches without biases and one more vector; norms before and after the layers; squares of patches side by
// side pass two matrices, then one to the language model.
VisionParts read_llama(KeyReader& reader, std::int64_t text_width) {
  VisionConfig config = read_sizes(reader, "num_hidden_layers", "num_attention_heads", "num_channels");
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
                                               std::int64_t text_width, std::int64_t image_tokens) {
  KeyReader reader(object, source, prefix);
  const std::string type = reader.read_text_or("model_type", "");
  VisionParts out;
  if (type == "siglip_vision_model")
    out = read_siglip(reader, text_width, image_tokens);
  else if (type == "llama4_vision_model")
    out = read_llama(reader, text_width);
  else if (type.starts_with("qwen3_vl") || type.starts_with("qwen3_5"))
    out = read_qwen(reader, text_width);
  else
    return std::optional<VisionParts>();
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("vision_config of '{}'", type)));
  for (EncoderPart& part : out.parts)
    for (const auto& [name, path] : reader.keys_read()) part.keys.push_back(path);
  return std::optional(std::move(out));
}

}  // namespace ridge::model
