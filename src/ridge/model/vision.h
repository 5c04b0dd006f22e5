// Reads vision_config: the part of a multimodal model that turns images into vectors of tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/model/config.h"
#include "ridge/model/key_reader.h"

namespace ridge::model {

struct VisionParts {
  VisionConfig config;
  std::vector<EncoderPart> parts;
};

// Returns the encoder and its projector to vectors of `text_width`, or nullopt for a model_type that is not known.
// `prefix` is the path of the object in the file; `outer_type` is the file's model_type, which counts if the object has
// none; `image_tokens` are those of an image of Gemma 3.
// Errors: an unknown or missing key, a wrong value.
Result<std::optional<VisionParts>> read_vision(const Json& object, const std::string& source, const std::string& prefix,
                                               const std::string& outer_type, std::int64_t text_width,
                                               std::int64_t image_tokens);

}  // namespace ridge::model
