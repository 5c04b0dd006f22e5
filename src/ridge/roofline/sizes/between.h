// From which size on some statements cost more than others: "s, o = q, k, v, y" asks when attention computes more than
// the projections, and when it takes longer.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct Between {
  std::vector<std::string> first, second;  // the statements' results on either side
  Polynomial first_flops = {}, second_flops = {};
  std::vector<std::string> order = {};  // of dimensions, for formulas
  std::vector<Threshold> flops = {};    // "compute" against "memory" stand for the first and the second here
  std::vector<Threshold> time = {};     // of the lower bounds; searched for
};

// Errors, of kind usage: sides that cannot be read, a statement that the program lacks; explain()'s.
Result<Between> between(const Program& program, const Machine& machine, const Bindings& given,
                        const std::string& sides);

}  // namespace ridge
