#include "ridge/plan/model/images.h"

#include <fmt/format.h>

#include "ridge/base/ceil_div.h"
#include "ridge/model/audio_program.h"

namespace ridge {

Result<ImageStep> predict_images(const model::ModelConfig& config, const ImageRequest& request,
                                 const model::CountOptions& counts, std::int64_t prompts,
                                 const model::ChipLayout& layout, const Machine& machine,
                                 const std::optional<PlanRequest>& plan) {
  RIDGE_TRY(image, model::count_image_tokens(config, request.image_size));
  ImageStep out{.images = request.images, .image = image};
  model::VisionOptions options{
      .dtype = model::activation_dtype(counts.weight_dtype), .images = request.images, .image_size = image.image_size};
  RIDGE_TRY_STATUS(model::write_vision_programs(config, options));  // Checks the number of images
  if (request.images * image.tokens > *counts.context)
    return usage_error(
        fmt::format("expected --context of at least {} tokens for --images {} with {} tokens each, found {}",
                    request.images * image.tokens, request.images, image.tokens, *counts.context),
        "the tokens of images are part of the prompt");
  options.images = out.images_per_chip = ceil_div(request.images * ceil_div(prompts, layout.data), layout.tensor);
  RIDGE_TRY(programs, model::write_vision_programs(config, options));
  RIDGE_TRY(step, predict_model_step(programs, machine, plan));
  out.step = std::move(step);
  return out;
}

Result<AudioStep> predict_audio(const model::ModelConfig& config, const model::CountOptions& counts,
                                std::int64_t prompts, const model::ChipLayout& layout, const Machine& machine,
                                const std::optional<PlanRequest>& plan) {
  AudioStep out{.frames = 2 * config.audio->vectors, .vectors = config.audio->vectors};
  out.clips_per_chip = ceil_div(ceil_div(prompts, layout.data), layout.tensor);
  const model::StepOptions formats{.weight_dtype = counts.weight_dtype, .cache_dtype = counts.cache_dtype};
  RIDGE_TRY(programs, model::write_audio_programs(config, formats, out.clips_per_chip));
  RIDGE_TRY(step, predict_model_step(programs, machine, plan));
  out.step = std::move(step);
  return out;
}

}  // namespace ridge
