// Programs of an audio encoder: frames pass two convolutions and the layers of a transformer (config.h, AudioConfig),
// and each layer of the language model gets keys and values of the results.
#pragma once

#include <cstdint>

#include "ridge/model/program.h"

namespace ridge::model {

// Returns the programs for this number of clips of one length. Errors: a config without such an encoder, clips out of
// range, an unknown activation.
Result<ModelPrograms> write_audio_programs(const ModelConfig& config, const StepOptions& formats, std::int64_t clips);

}  // namespace ridge::model
