// What would make a program faster on a machine, and by how much: variants of it, each with its time by the planner
// where the machine has one, else by its bounds. A variant is a program of its own, so that running both in turn
// confirms what is said (`ridge run A --against B`); what no program on one device shows (chips, another dtype of
// weights that no kernel takes) says so. Nothing is said that gains less than least_gain, or may lose.
#pragma once

#include <string>
#include <vector>

#include "ridge/plan/predict.h"

namespace ridge {

struct Advice {
  std::string kind;      // a Variant's; "sharing" of kernels; "bound": by the bounds alone
  std::string what;      // "multiply b * c first"; "store x, y in bf16 in place of f32"
  Interval gain_s = {};  // of one run of the program as it is; of a larger batch: of that share of it
  std::string variant;   // the program that is faster, all its sizes in it; empty: only `options` show it
  double work = 1;       // the variant does so many times as much: 16 for a batch of 16 in place of 1
  std::string options;   // behind `ridge explain PROGRAM`
};

struct Advices {
  Interval predicted_s = {};        // of the program as it is
  std::string program;              // with all its sizes in it
  double bound_s = 0;               // no plan takes less
  std::vector<Advice> advice = {};  // largest gain first
};

inline constexpr double least_gain = 0.02;  // of the time

// `explanation` is of the same program. Errors: predict()'s, a dimension without a value.
Result<Advices> advise(const Program& program, const Explanation& explanation, const PlanRequest& request = {});

}  // namespace ridge
