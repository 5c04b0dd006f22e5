// Suggests changes that would make a program faster on a machine, with predicted gains. Times come from the planner
// where the machine has one, else from the bounds. Each variant is a complete program, so `ridge run A --against B` can
// confirm it; advice that one device cannot confirm (more chips, weight dtypes without a kernel) is marked as such.
// Advice that gains less than `min_gain_fraction`, or that may lose time, is left out.
#pragma once

#include <string>
#include <vector>

#include "ridge/plan/predict.h"

namespace ridge {

struct Advice {
  std::string kind;             // ProgramVariant::kind, "sharing" (fused kernels), or "bound" (from bounds only)
  std::string description;      // such as "multiply b * c first, then a"
  Interval gain_s = {};         // seconds saved per run of the given program (of a batch: per item)
  std::string variant;          // source of the faster program with its sizes; empty if only `explain_options` apply
  double work_ratio = 1;        // work of the variant over that of the program: 16 for a batch of 16 instead of 1
  std::string explain_options;  // arguments to add to `ridge explain PROGRAM`
};

struct AdviceList {
  Interval predicted_s = {};                    // seconds that the given program takes
  std::string program;                          // source of the given program with its sizes
  double bound_s = 0;                           // lower bound of its kernels, seconds
  std::vector<std::string> without_model = {};  // results that plain loops compute, whose time is not predicted
  std::vector<Advice> advice = {};              // largest gain first
};

inline constexpr double min_gain_fraction = 0.02;  // smallest gain to report, as a fraction of the time

// `explanation` must belong to `program`. Errors: those of `predict_program`; a dimension without a value.
Result<AdviceList> make_advice(const Program& program, const Explanation& explanation, const PlanRequest& request = {});

// Variants of a program that compute (nearly) the same in another way, for advice. Each is made by editing the text.
struct ProgramVariant {
  std::string kind;  // "order", "layout", "dtype", "weights", "padding", "batch", "chips"
  std::string description;
  Program program;
  Bindings dims;
  double work_ratio = 1;
};

// Returns the program with its sizes in the dims line, so that the text is complete.
Program with_sizes(Program program, const Bindings& dims);

// Returns all variants: products of three in another order; inputs stored in the order that the planner copies them to;
// f32 as bf16; weights as int8; padded sizes; larger batches; one chip's shard of eight without communication.
std::vector<ProgramVariant> make_variants(const Program& program, const Explanation& explanation,
                                          const PlannedProgram* planned);

}  // namespace ridge
