// Reads vision_config: the part of a multimodal model that turns images into vectors of tokens.
#pragma once

#include <optional>
#include <string>

#include "ridge/model/config.h"
#include "ridge/model/key_reader.h"

namespace ridge::model {

// Returns the encoder and its projector to vectors of `text_width`, or nullopt for a model_type that is not known.
// `prefix` is the path of the object in the file. Errors: an unknown or missing key, a wrong value.
Result<std::optional<std::vector<EncoderPart>>> read_vision(const Json& object, const std::string& source,
                                                            const std::string& prefix, std::int64_t text_width);

}  // namespace ridge::model
