// Nelder and Mead's method: minimizes a function of a few numbers without derivatives.
#pragma once

#include <functional>
#include <vector>

namespace ridge {

// Starts from a simplex around `begin` with edges of length `size` and takes `steps` steps.
std::vector<double> minimize_nelder_mead(const std::vector<double>& begin, double size, int steps,
                                         const std::function<double(const std::vector<double>&)>& value);

}  // namespace ridge
