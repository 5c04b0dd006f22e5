// Time of an encoder before prefill: of images, which makes tokens of a prompt, or of one clip of sound for each
// prompt.
#pragma once

#include <cstdint>
#include <optional>

#include "ridge/model/count.h"
#include "ridge/model/vision_program.h"
#include "ridge/plan/model/step.h"

namespace ridge {

struct ImageRequest {
  std::int64_t images = 1;      // Images of each prompt
  std::int64_t image_size = 0;  // Pixels along a side; 0 for the config's
};

// Images of the prompts of one step. The chips of tensor parallelism divide the images: each computes whole images.
struct ImageStep {
  std::int64_t images = 0;  // Images of each prompt
  model::ImageTokens image = {};
  std::int64_t images_per_chip = 0;  // Most images that one chip computes
  ModelStep step = {};               // The encoder on one chip
};

// Returns the encoder's step for this number of prompts on the layout's chips. With `plan`, kernels are predicted, too.
// Errors: those of `write_vision_programs` and `predict_parts`, and more tokens of images than the context.
Result<ImageStep> predict_images(const model::ModelConfig& config, const ImageRequest& request,
                                 const model::CountOptions& counts, std::int64_t prompts,
                                 const model::ChipLayout& layout, const Machine& machine,
                                 const std::optional<PlanRequest>& plan);

// Sounds of the prompts of one step, one clip each. The chips of tensor parallelism divide the clips.
struct AudioStep {
  std::int64_t frames = 0, vectors = 0;  // Numbers of a clip
  std::int64_t clips_per_chip = 0;       // Most clips that one chip computes
  ModelStep step = {};                   // The encoder on one chip
};

// Returns the step of the audio encoder for this number of prompts. Errors: those of `write_audio_programs` and
// `predict_parts`.
Result<AudioStep> predict_audio(const model::ModelConfig& config, const model::CountOptions& counts,
                                std::int64_t prompts, const model::ChipLayout& layout, const Machine& machine,
                                const std::optional<PlanRequest>& plan);

}  // namespace ridge
