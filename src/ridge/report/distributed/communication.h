// Communication choices as JSON: tree or ring for small messages, and chunks that overlap products.
#pragma once

#include <nlohmann/json.hpp>

#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"

namespace ridge {

nlohmann::ordered_json small_messages_json(const std::vector<SmallMessages>& all);
nlohmann::ordered_json overlaps_json(const std::vector<Overlap>& all);

}  // namespace ridge
