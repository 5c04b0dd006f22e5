// What to do next about the time that a program takes on a machine, and what each step is worth: statements fused,
// weights narrowed, several chips, and the sizes at which memory gives way to compute. Everything here follows from
// counts and from a time for each variant of the program: its lower bound, or what a planner predicts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

struct NextStep {
  std::string what;                   // "fuse s, p, o"; "B >= 310: g, u are compute-bound"
  std::optional<double> gain_s = {};  // null: a size that only says where the limiter changes
  std::optional<double> time_s = {};  // the whole program's, behind the step; null likewise
  std::string options = {};           // what shows it, behind `ridge explain PROGRAM`: "--fuse s,p,o"
  Bindings dims = {};                 // and sizes in place of those given: B = 310
};

// Seconds that a program takes as an explanation of it (or of a variant) counts it; none: unknown.
using TimeOf = std::function<std::optional<double>(const Program&, const Explanation&)>;
std::optional<double> lower_bound(const Program& program, const Explanation& explanation);

// The dimensions that a reader asks about: those without a value and those that were given one; of a program that says
// all of them itself, the three that stand in most statements.
std::vector<std::string> dimensions_asked(const Program& program, const Explanation& explanation,
                                          const Bindings& given);

// Each step once, largest gain first, then sizes by the share of the time that they are about. `explanation` is of
// `program` at these dimensions; empty where its time is unknown, or the program is larger than max_next_statements.
std::vector<NextStep> next_steps(const Program& program, const Explanation& explanation,
                                 const std::vector<std::string>& dims, const TimeOf& time_of = lower_bound);

inline constexpr std::int64_t chips_asked = 8;          // as many as commonly stand in one machine
inline constexpr std::size_t max_next_statements = 64;  // more would take longer than explaining them

}  // namespace ridge
