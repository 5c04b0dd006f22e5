// Nelder and Mead's method: the least of a function of a few numbers, without slopes.
#pragma once

#include <functional>
#include <vector>

namespace ridge {

// From a simplex around `begin` whose corners lie `size` away, in so many steps. The same on every machine where
// `value` is.
std::vector<double> least_by_simplex(const std::vector<double>& begin, double size, int steps,
                                     const std::function<double(const std::vector<double>&)>& value);

}  // namespace ridge
