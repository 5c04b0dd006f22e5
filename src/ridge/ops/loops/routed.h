// Axes of a routed product, as kernels on a device and their forecast divide them.
#pragma once

#include <vector>

#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

struct RoutedAxes {
  explicit RoutedAxes(const RoutedProductLoops& l);
  // True if a device reads packs of `width` elements along the summed ones, in x and in the weights, of one dtype.
  bool are_terms_adjacent(const RoutedProductLoops& l, std::int64_t width) const;

  std::vector<LoopAxis> rows;         // Axes of the result along which x or the index differs
  std::vector<LoopAxis> row_weights;  // The same with the weights' strides as `values`
  std::vector<LoopAxis> columns;      // The other axes of the result, with the weights' strides as `values`
  std::vector<LoopAxis> summed;       // With the weights' strides as `result`
};

}  // namespace ridge::ops
