// Fits data/models/serving.csv to measured engines. The points are not in the tree: they are a public collection whose
// path is given (docs/fit.md).
#pragma once

#include <string>

#include "ridge/base/result.h"

namespace ridge::fit {

// Prints the errors on held-out halves and writes the file below `root`. If the points cannot be read, it prints that
// the file stays as it is.
Status fit_serving(const std::string& points, const std::string& root);

}  // namespace ridge::fit
