// How what a program sends is best sent, as JSON: trees or rings for small messages, chunks beside products.
#pragma once

#include <nlohmann/json.hpp>

#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"

namespace ridge {

nlohmann::ordered_json small_messages_json(const std::vector<SmallMessages>& all);
nlohmann::ordered_json overlaps_json(const std::vector<Overlap>& all);

}  // namespace ridge
