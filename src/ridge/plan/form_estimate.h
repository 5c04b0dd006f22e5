// Estimates the time of kernels whose plans are unknown, with the formulas of ops/library and the parameters that
// `ridge calibrate` fitted for a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/ops/library/formula.h"
#include "ridge/ops/model.h"
#include "ridge/plan/plan.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// Returns the inputs of ops::cpu_formula(), all above 0 as it requires. `group_prediction` is that of the group as one
// operation; `functions_s` is the time of its functions, 0 if unknown.
std::vector<double> cpu_formula_inputs(const Explanation& explanation, const Plan& plan, int group,
                                       const Prediction& group_prediction, double functions_s);

// Returns the machine's properties that a formula needs.
ops::LibraryDevice make_library_device(const Machine& machine, const ops::DatasheetRates& rates);

// Returns a key of the machine's file, such as "library_low", "library_prefill_low" or "cpu_low".
std::string spread_key(const ops::LibraryFormula& formula, std::string_view what);

bool is_fitted(const Machine& machine, const ops::LibraryFormula& formula);

// Returns measured over predicted time from the machine's file, 1 if absent. 80 % of measurements were low to high.
ops::PredictionSpread formula_spread(const Machine& machine, const ops::LibraryFormula& formula);

struct FormulaEstimate {
  double seconds = 0;  // time of one launch
  ops::PredictionSpread spread;
};
// Returns the estimate for a kernel of these sizes, or nullopt if the formula is not calibrated for this machine.
std::optional<FormulaEstimate> estimate_with_formula(const Machine& machine, const ops::LibraryFormula& formula,
                                                     const std::vector<double>& sizes,
                                                     const ops::DatasheetRates& rates = {});

// Returns the estimate with the formula's initial parameters, which are typical of GPUs; its interval is wide.
FormulaEstimate estimate_uncalibrated(const Machine& machine, const ops::LibraryFormula& formula,
                                      const std::vector<double>& sizes, const ops::DatasheetRates& rates);

}  // namespace ridge
