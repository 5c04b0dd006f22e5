// Texts and JSON of speculative decoding, and of the cost and energy of tokens.
#pragma once

#include <optional>
#include <string>

#include "ridge/plan/model/machine.h"
#include "ridge/report/json_values.h"

namespace ridge {

// Returns the answer: "with 4 draft tokens, a token of each of 16 sequences takes 9.10 ms at least: …"
std::string speculation_text(const ModelOnMachine& x);
// Returns what the answer is computed from.
std::string speculation_details_text(const ModelOnMachine& x);
Json speculation_json(const Speculation& x);

// Cost and energy of output tokens.
struct TokenCost {
  std::optional<double> per_million = {}, served_per_million = {};  // nullopt without a price, or without served times
  std::optional<double> joules = {};  // Energy of one token at full power, an upper bound; nullopt if not on record
};
TokenCost compute_token_cost(const ModelOnMachine& x);
// Returns the cost, or nothing without a price.
std::string token_cost_text(const ModelOnMachine& x);
Json token_cost_json(const ModelOnMachine& x);

}  // namespace ridge
