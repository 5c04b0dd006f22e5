// Sizes from which some statements cost more than others: "s, o = q, k, v, y" asks when attention computes more than
// the projections, and when it takes longer.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct StatementComparison {
  std::vector<std::string> first, second;  // Results of the statements on either side
  Polynomial first_flops = {}, second_flops = {};
  std::vector<std::string> order = {};           // Order of dimensions in formulas
  std::vector<Threshold> flops_thresholds = {};  // Thresholds of FLOPs; "compute" means first, "memory" second
  std::vector<Threshold> time_thresholds = {};   // Thresholds of the lower time bounds, found by search
};

// Errors, of kind usage: sides that cannot be parsed, an unknown statement; those of explain().
Result<StatementComparison> compare_statements(const Program& program, const Machine& machine, const Bindings& given,
                                               const std::string& sides);

}  // namespace ridge
