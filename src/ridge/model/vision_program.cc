#include "ridge/model/vision_program.h"

#include <fmt/format.h>

#include "ridge/model/activations.h"
#include "ridge/model/encoder_layers.h"

namespace ridge::model {
namespace {

constexpr std::int64_t max_images = 1 << 16, max_image_size = 1 << 16;

struct VisionSizes {
  const VisionConfig& config;
  VisionOptions options;
  ImageTokens image;
  EncoderSizes layers;
  std::int64_t patches() const { return image.patches_per_side * image.patches_per_side; }
};

// Adds the rows of a table of positions, one for each patch. Returns what is added to the patches.
std::string add_table_positions(ProgramWriter& out, const VisionSizes& sizes, const std::string& axis) {
  out.add_dimension("YP", sizes.config.positions);
  out.add_parameter("positions" + axis, sizes.options.dtype, "YP, W");
  out.add_input("data", "place" + axis, DType::int32, "NP");
  out.add("position" + axis, "NP, W", fmt::format("gather(positions{0}, place{0} over YP)", axis));
  return " + position" + axis;
}

void add_patches(ProgramWriter& out, const VisionSizes& sizes, const std::string& result) {
  const VisionConfig& config = sizes.config;
  const DType dtype = sizes.options.dtype;
  out.begin_module("vision patches");
  out.add_dimension("CV", config.patch_values);
  const std::string patches = config.has_class_token ? "PP" : "NP";
  out.add_dimension(patches, sizes.patches());
  out.add_input("data", "pixels", dtype, fmt::format("IM, {}, CV", patches));
  out.add_parameter("patch", dtype, "CV, W");
  out.add("patch0", fmt::format("IM, {}, W", patches), "pixels * patch");
  if (config.has_class_token) {
    for (const auto& [name, dims] : {std::pair{"class", "W"}, {"positions", "NP, W"}})
      out.add_parameter(name, dtype, dims);
    out.add_indices("place", "NP", "min(index(NP), size(PP) - 1)");
    out.add("patch1", "IM, NP, W", "gather(patch0, place over PP)");
    out.add("patch2", "IM, NP, W", "where(index(NP) < size(PP), patch1, class) + positions");
    for (const char* name : {"norm0", "shift0"}) out.add_parameter(name, dtype, "W");
    return out.add_stored(result, dtype, "IM, NP, W", "layernorm(patch2 over W) * norm0 + shift0");
  }
  std::string sum = "patch0";
  if (config.has_patch_bias) {
    out.add_parameter("bias", dtype, "W");
    sum += " + bias";
  }
  if (config.position_rule == VisionPositions::of_patches) {
    out.add_parameter("positions", dtype, "NP, W");
    sum += " + positions";
  }
  if (config.position_rule == VisionPositions::of_table) sum += add_table_positions(out, sizes, "");
  if (config.position_rule == VisionPositions::of_row_and_column)
    for (const char* axis : {"y", "x"}) sum += add_table_positions(out, sizes, axis);
  out.add_stored(result, dtype, "IM, NP, W", sum);
}

// Adds squares$: for each token the vectors of its patches, rows MR and columns MC of a square.
void add_squares(ProgramWriter& out, const VisionSizes& sizes, const std::string& x) {
  const std::int64_t side = sizes.image.patches_per_side / sizes.config.merged;
  for (const auto& [name, size] :
       {std::pair{"TR", side}, {"TC", side}, {"MR", sizes.config.merged}, {"MC", sizes.config.merged}})
    out.add_dimension(name, size);
  out.add_indices("at$", "TR, TC, MR, MC",
                  "(size(MR) * index(TR) + index(MR)) * size(TC) * size(MC) + size(MC) * index(TC) + index(MC)");
  out.add("squares$", "IM, TR, TC, MR, MC, W", fmt::format("gather({}, at$ over NP)", x));
}

// Adds the projector: all patches of a token, or their mean, become a vector of the language model.
void add_projector(ProgramWriter& out, const VisionSizes& sizes, const std::string& x, bool is_deep) {
  const VisionConfig& config = sizes.config;
  const DType dtype = sizes.options.dtype;
  const std::string tokens = "IM, TR, TC", square = "MR, MC, W";
  out.begin_module(is_deep ? "vision projector of a layer" : "vision projector");
  out.add_dimension("DT", config.text_width);
  const bool has_norm = !is_deep && config.projector != VisionProjector::averaged;
  if (has_norm) add_encoder_norm(out, sizes.layers, "h3$", x, "3");
  add_squares(out, sizes, has_norm ? "h3$" : x);
  if (config.projector == VisionProjector::averaged) {
    std::string mean = "average$";
    out.add(mean, tokens + ", W", "mean(squares$ over MR, MC)");
    if (config.has_scale) {
      for (const char* name : {"shift$", "scale$"}) out.add_parameter(name, dtype, "W");
      mean = "scaled$";
      out.add(mean, tokens + ", W", "(average$ - shift$) * scale$");
    }
    out.add("h4$", tokens + ", W", fmt::format("rmsnorm({} over W)", mean));
    out.add_parameter("wout$", dtype, "W, DT");
    return out.add_stored("images$", dtype, tokens + ", DT", "h4$ * wout$");
  }
  if (config.projector == VisionProjector::pooled) {
    out.add("average$", tokens + ", W", "mean(squares$ over MR, MC)");
    out.add_parameter("norm4$", dtype, "W");
    out.add("h4$", tokens + ", W", "rmsnorm(average$ over W) * norm4$");
    out.add_parameter("wout$", dtype, "W, DT");
    return out.add_stored("images$", dtype, tokens + ", DT", "h4$ * wout$");
  }
  out.add_dimension("FI", config.inner_width);
  const auto call = [&](const std::string& name) { return fmt::format(fmt::runtime(sizes.layers.function), name); };
  if (config.projector == VisionProjector::shuffled) {
    out.add_dimension("FO", config.inner_width);
    for (const auto& [name, dims] :
         {std::pair{"wfirst$", "MR, MC, W, FI"}, {"wsecond$", "FI, FO"}, {"wout$", "FO, DT"}})
      out.add_parameter(name, dtype, dims);
    out.add("first$", tokens + ", FI", "squares$ * wfirst$");
    out.add("g3$", tokens + ", FI", call("first$"));
    out.add("second$", tokens + ", FO", "g3$ * wsecond$");
    out.add("g4$", tokens + ", FO", call("second$"));
    return out.add_stored("images$", dtype, tokens + ", DT", "g4$ * wout$");
  }
  std::string from = "squares$";
  if (is_deep) {  // The norm is along all patches of a token
    for (const char* name : {"norm5$", "shift5$"}) out.add_parameter(name, dtype, square);
    out.add("h5$", tokens + ", " + square, "layernorm(squares$ over MR, MC, W) * norm5$ + shift5$");
    from = "h5$";
  }
  add_encoder_linear(out, sizes.layers, "first", tokens, from, square, "FI");
  out.add("g3$", tokens + ", FI", "gelu(first$)");
  add_encoder_linear(out, sizes.layers, "images", tokens, "g3$", "FI", "DT", true);
}

template <class Add>
PartProgram write_part(const VisionSizes& sizes, const char* name, std::int64_t count, bool has_input, Add&& add) {
  ProgramWriter out;
  add_encoder_rows(out, sizes.layers);
  if (has_input) out.add_input("data", "x", sizes.options.dtype, "IM, NP, W");
  add(out);
  return {.name = name, .count = count, .text = out.text(), .modules = out.modules()};
}

Result<VisionSizes> make_sizes(const ModelConfig& config, const VisionOptions& options) {
  RIDGE_TRY(image, count_image_tokens(config, options.image_size));
  if (options.images < 1 || options.images > max_images)
    return usage_error(fmt::format("expected --images from 1 to {}, found {}", max_images, options.images));
  RIDGE_TRY(function, find_activation(config.vision->activation, config.name));
  const VisionConfig& vision = *config.vision;
  VisionSizes sizes{vision, options, image, {}};
  sizes.layers = {.name = "vision",
                  .dtype = options.dtype,
                  .inputs = options.images,
                  .vectors = sizes.patches() + (vision.has_class_token ? 1 : 0),
                  .width = vision.width,
                  .heads = vision.heads,
                  .feed_forward = vision.feed_forward,
                  .function = function,
                  .has_rotary = vision.has_rotary,
                  .is_gated = vision.is_gated};
  return sizes;
}

}  // namespace

Result<ImageTokens> count_image_tokens(const ModelConfig& config, std::int64_t image_size) {
  if (!config.vision)
    return input_error(
        fmt::format("{}: expected a vision_config for --images, found none that has programs", config.name),
        "those of Gemma 3 and 4, Llama 4, Qwen2-VL, Qwen3-VL and Qwen3.5 have");
  const VisionConfig& vision = *config.vision;
  const std::int64_t size = image_size > 0 ? image_size : vision.image_size;
  if (size == 0)
    return usage_error(fmt::format("{}: expected --image-size together with --images, found none", config.name),
                       "its images have any size");
  if (vision.image_size > 0 && size != vision.image_size)
    return usage_error(fmt::format("{}: expected --image-size {}, for which the encoder has positions, found {}",
                                   config.name, vision.image_size, size));
  const std::int64_t square = vision.patch * vision.merged;
  if (size > max_image_size || size % square != 0)
    return usage_error(
        fmt::format("{}: expected --image-size as a multiple of {}, the pixels of a token, up to {}, "
                    "found {}",
                    config.name, square, max_image_size, size));
  return ImageTokens{size, size / vision.patch, (size / square) * (size / square)};
}

Result<ModelPrograms> write_vision_programs(const ModelConfig& config, const VisionOptions& options) {
  RIDGE_TRY(sizes, make_sizes(config, options));
  ModelPrograms out;
  out.parts.push_back(
      write_part(sizes, "vision patches", 1, false, [&](ProgramWriter& writer) { add_patches(writer, sizes, "x"); }));
  out.parts.push_back(write_part(sizes, "vision layer", sizes.config.layers, true,
                                 [&](ProgramWriter& writer) { add_encoder_layer(writer, sizes.layers, "x", "z"); }));
  for (const bool is_deep : {true, false})
    if (!is_deep || sizes.config.deep_layers > 0)
      out.parts.push_back(write_part(sizes, is_deep ? "vision projector of a layer" : "vision projector",
                                     is_deep ? sizes.config.deep_layers : 1, true,
                                     [&](ProgramWriter& writer) { add_projector(writer, sizes, "x", is_deep); }));
  if (sizes.config.has_rotary)
    out.notes.emplace_back("the programs of images turn queries and keys by one position, the model by row and column");
  if (sizes.config.position_rule == VisionPositions::of_table)
    out.notes.emplace_back("the programs of images read one position for each patch, the model the mean of four");
  return out;
}

Result<std::string> write_vision_program(const ModelConfig& config, const VisionOptions& options) {
  RIDGE_TRY(sizes, make_sizes(config, options));
  ProgramWriter out;
  add_encoder_rows(out, sizes.layers);
  add_patches(out, sizes, "x_0");
  for (std::int64_t i = 0; i < sizes.config.layers; ++i) {
    out.set_suffix(fmt::format("_{}", i));
    out.add_comment(fmt::format("Layer {}", i));
    add_encoder_layer(out, sizes.layers, fmt::format("x_{}", i), fmt::format("x_{}", i + 1));
    // The first layers take the place of those in deepstack_visual_indexes, which are as large.
    if (i < sizes.config.deep_layers) add_projector(out, sizes, fmt::format("x_{}", i + 1), true);
  }
  out.add_comment("Projector");
  out.set_suffix("");
  add_projector(out, sizes, fmt::format("x_{}", sizes.config.layers), false);
  return out.text();
}

}  // namespace ridge::model
