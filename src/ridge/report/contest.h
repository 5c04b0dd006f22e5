// What `ridge bench` shows: one line a product, then the classes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ridge/machine/machine.h"
#include "ridge/measure/contest.h"

namespace ridge {

// machine: whose peaks the fractions refer to (f32 from the vector unit, bf16 from the matrix unit, one core or all).
std::string contest_text(const measure::Contest& contest, const Machine& machine);
nlohmann::ordered_json contest_json(const measure::Contest& contest, const Machine& machine);

}  // namespace ridge
