// Suggests steps that reduce the time of a program on a machine, with the gain of each: fused statements, narrower
// weights, several chips, and sizes at which the limiter changes between memory and compute. Everything follows from
// counts and from a time of each variant of the program: its lower bound, or a planner's prediction.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

struct NextStep {
  std::string description;            // "fuse s, p, o"; "B >= 310: g, u are compute-bound"
  std::optional<double> gain_s = {};  // nullopt for a size that only changes the limiter
  std::optional<double> time_s = {};  // Seconds of the whole program after the step; nullopt as `gain_s`
  std::string options = {};           // Options of `ridge explain PROGRAM` that show the step: "--fuse s,p,o"
  Bindings dims = {};                 // Sizes that replace those given: B = 310
};

// Seconds of a program (or a variant) from its explanation; nullopt if unknown.
using TimeEstimator = std::function<std::optional<double>(const Program&, const Explanation&)>;
std::optional<double> lower_bound_seconds(const Program& program, const Explanation& explanation);

// Returns the dimensions of interest: those without a value and those in `given`; for a program that sets all of them
// itself, the three that occur in most statements.
std::vector<std::string> relevant_dimensions(const Program& program, const Explanation& explanation,
                                             const Bindings& given);

// Returns each step once, largest gain first, then sizes by the time of their statements. `explanation` is that of
// `program`. Returns nothing if the time is unknown or the program exceeds `max_suggest_statements`.
std::vector<NextStep> suggest_next_steps(const Program& program, const Explanation& explanation,
                                         const std::vector<std::string>& dims,
                                         const TimeEstimator& time_of = lower_bound_seconds);

inline constexpr std::int64_t suggested_split_chips = 8;   // Common number of chips in one machine
inline constexpr std::size_t max_suggest_statements = 64;  // Larger programs would take longer than explaining them

}  // namespace ridge
