#include "ridge/model/vision.h"

#include <fmt/format.h>

#include "ridge/model/families.h"

namespace ridge::model {
namespace {

// Limits of values. No product of them exceeds 2^60.
constexpr std::int64_t max_vision_width = 1 << 16, max_hidden = 1 << 18, max_image = 1 << 16, max_pixels = 1 << 10,
                       max_merged = 1 << 4;

// A transformer with biases, whose norms have shifts: SigLIP and what follows it.
struct VisionSizes {
  std::int64_t width = 0, feed_forward = 0, layers = 0, channels = 3, patch = 0;
};

VisionSizes read_sizes(KeyReader& reader, std::string_view layers, std::string_view heads, std::string_view channels) {
  VisionSizes out{.width = reader.read_integer("hidden_size", 1, max_vision_width),
                  .feed_forward = reader.read_integer("intermediate_size", 1, max_hidden),
                  .layers = reader.read_integer(layers, 1, max_layers),
                  .channels = reader.read_integer_or(channels, 3, 1, max_pixels),
                  .patch = reader.read_integer("patch_size", 1, max_pixels)};
  (void)reader.read_integer(heads, 1, max_heads);
  return out;
}

// Returns the parameters of all layers: queries, keys, values and results; two matrices; two norms.
std::int64_t count_layers(const VisionSizes& sizes) {
  const std::int64_t w = sizes.width, f = sizes.feed_forward;
  return sizes.layers * (4 * (w * w + w) + 2 * w * f + f + w + 4 * w);
}

// Gemma 3: SigLIP without a head, a position for each patch; a norm and a matrix to the language model.
std::vector<EncoderPart> read_siglip(KeyReader& reader, std::int64_t text_width) {
  const VisionSizes sizes = read_sizes(reader, "num_hidden_layers", "num_attention_heads", "num_channels");
  const std::int64_t side = reader.read_integer("image_size", 1, max_image) / sizes.patch, w = sizes.width;
  if (reader.read_flag_or("vision_use_head", false))
    reader.fail("vision_use_head", "expected false, found true", "the head of SigLIP is not counted yet");
  const std::int64_t patches = w * sizes.channels * sizes.patch * sizes.patch + w;
  return {{"vision encoder", sizes.layers, patches + side * side * w + count_layers(sizes) + 2 * w},
          {"vision projector", 0, w * text_width + w}};
}

// Qwen3-VL and Qwen3.5: patches of several frames, learned positions; patches are merged and projected, also those of
// the layers in deepstack_visual_indexes.
std::vector<EncoderPart> read_qwen(KeyReader& reader, std::int64_t text_width) {
  const VisionSizes sizes = read_sizes(reader, "depth", "num_heads", "in_channels");
  const std::int64_t frames = reader.read_integer("temporal_patch_size", 1, max_pixels), w = sizes.width;
  const std::int64_t positions = reader.read_integer("num_position_embeddings", 1, max_size);
  const std::int64_t side = reader.read_integer("spatial_merge_size", 1, max_merged), merged = w * side * side;
  const std::int64_t out = reader.read_integer("out_hidden_size", 1, max_size);
  if (out != text_width)
    reader.fail("out_hidden_size",
                fmt::format("expected {} as hidden_size of the language model, found {}", text_width, out));
  const auto deep = static_cast<std::int64_t>(reader.read_integers("deepstack_visual_indexes", max_layers).size());
  if (deep > sizes.layers)
    reader.fail("deepstack_visual_indexes",
                fmt::format("expected at most {} entries as in depth, found {}", sizes.layers, deep));
  const std::int64_t patches = w * sizes.channels * frames * sizes.patch * sizes.patch + w;
  const std::int64_t projector = merged * merged + merged + merged * out + out;
  return {{"vision encoder", sizes.layers, patches + positions * w + count_layers(sizes)},
          {"vision projector", 0, 2 * w + projector + deep * (2 * merged + projector)}};
}

}  // namespace

Result<std::optional<std::vector<EncoderPart>>> read_vision(const Json& object, const std::string& source,
                                                            const std::string& prefix, std::int64_t text_width) {
  KeyReader reader(object, source, prefix);
  const std::string type = reader.read_text_or("model_type", "");
  std::vector<EncoderPart> parts;
  if (type == "siglip_vision_model")
    parts = read_siglip(reader, text_width);
  else if (type.starts_with("qwen3_vl") || type.starts_with("qwen3_5"))
    parts = read_qwen(reader, text_width);
  else
    return std::optional<std::vector<EncoderPart>>();
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("vision_config of '{}'", type)));
  for (EncoderPart& part : parts)
    for (const auto& [name, path] : reader.keys_read()) part.keys.push_back(path);
  return std::optional(std::move(parts));
}

}  // namespace ridge::model
