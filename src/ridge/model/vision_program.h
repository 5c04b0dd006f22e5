// Programs of a vision encoder: patches of images pass the layers of a transformer, and a projector makes vectors of
// the language model's tokens of them (config.h, VisionConfig).
#pragma once

#include <cstdint>
#include <string>

#include "ridge/model/program.h"

namespace ridge::model {

struct VisionOptions {
  DType dtype = DType::bf16;  // Format of weights and activations; encoders are not quantized
  std::int64_t images = 1;
  std::int64_t image_size = 0;  // Pixels along a side of each image; 0 for that of the config
};

// Patches along a side of an image, and the tokens that it becomes.
struct ImageTokens {
  std::int64_t image_size = 0, patches_per_side = 0, tokens = 0;
};

// Returns what an image becomes. Errors: a model without a vision encoder that has programs, a size that is missing, or
// that patches of a token do not divide, or that the encoder has no positions for.
Result<ImageTokens> count_image_tokens(const ModelConfig& config, std::int64_t image_size);
// Returns the programs of the patches, of one kind of layer, and of the projectors. Errors: those of
// `count_image_tokens`, images out of range, an unknown activation.
Result<ModelPrograms> write_vision_programs(const ModelConfig& config, const VisionOptions& options);
// Returns one program of all of them. Same errors.
Result<std::string> write_vision_program(const ModelConfig& config, const VisionOptions& options);

}  // namespace ridge::model
