#include "ridge/simulate/convolution.h"

#include <fmt/format.h>

#include <utility>

namespace ridge {

Result<ProductSize> as_product(const Convolution& v) {
  constexpr std::int64_t largest = (std::int64_t{1} << 31) - 1;
  for (const auto& [what, value] : {std::pair{"image height", v.height},
                                    {"image width", v.width},
                                    {"filter height", v.filter_height},
                                    {"filter width", v.filter_width},
                                    {"channel count", v.channels},
                                    {"filter count", v.filters},
                                    {"stride", v.stride},
                                    {"batch", v.batch}})
    if (value < 1 || value > largest)
      return input_error(fmt::format("expected the {} between 1 and {}, found {}", what, largest, value));
  if (v.filter_height > v.height || v.filter_width > v.width)
    return input_error(fmt::format("expected a filter no larger than the image of {}×{}, found {}×{}", v.height,
                                   v.width, v.filter_height, v.filter_width));
  ProductSize product{.n = v.filters};
  if (__builtin_mul_overflow(v.out_height() * v.out_width(), v.batch, &product.m) ||
      __builtin_mul_overflow(v.filter_height * v.filter_width, v.channels, &product.k))
    return input_error("the convolution as a product leaves 64 bits");
  return product;
}

}  // namespace ridge
