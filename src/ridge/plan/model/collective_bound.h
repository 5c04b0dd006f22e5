// Bound of collectives that a step of a model starts.
#pragma once

#include <map>
#include <string>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct CollectiveBound {
  double seconds = 0;
  double bytes_sent = 0;  // By one chip
};
// Returns the bound of a program of collectives. Errors: a machine without a link.
Result<CollectiveBound> predict_collective(const std::string& program, const Machine& machine);
// Returns the same, which is computed once. `known` has the bounds by program; layers have the same collectives.
Result<CollectiveBound> find_collective_bound(const std::string& program, const Machine& machine,
                                              std::map<std::string, CollectiveBound>& known);

}  // namespace ridge
