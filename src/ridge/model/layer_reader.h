// Reads the keys that decide about the layers of a model: attention, recurrent mixers, windows and experts.
#pragma once

#include "ridge/model/families.h"

namespace ridge::model {

// Each function sets its part of the config; `config.layers` has the number of layers. Errors are kept by the reader.
void read_attention(KeyReader& reader, const FamilyConventions& family, ModelConfig& config);
void read_recurrent(KeyReader& reader, const FamilyConventions& family, ModelConfig& config);
void read_windows(KeyReader& reader, const FamilyConventions& family, ModelConfig& config);
void read_experts(KeyReader& reader, const FamilyConventions& family, ModelConfig& config);

}  // namespace ridge::model
