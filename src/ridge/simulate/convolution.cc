#include "ridge/simulate/convolution.h"

#include <fmt/format.h>

#include <utility>

namespace ridge {

Result<ProductSize> to_product_size(const Convolution& convolution) {
  constexpr std::int64_t max_value = (std::int64_t{1} << 31) - 1;
  for (const auto& [what, value] : {std::pair{"image height", convolution.height},
                                    {"image width", convolution.width},
                                    {"filter height", convolution.filter_height},
                                    {"filter width", convolution.filter_width},
                                    {"channel count", convolution.channels},
                                    {"filter count", convolution.filters},
                                    {"vertical stride", convolution.stride_height},
                                    {"horizontal stride", convolution.stride_width},
                                    {"batch", convolution.batch}})
    if (value < 1 || value > max_value)
      return input_error(fmt::format("expected the {} between 1 and {}, found {}", what, max_value, value));
  if (convolution.filter_height > convolution.height || convolution.filter_width > convolution.width)
    return input_error(fmt::format("expected a filter no larger than the image of {}×{}, found {}×{}",
                                   convolution.height, convolution.width, convolution.filter_height,
                                   convolution.filter_width));
  ProductSize product{.n = convolution.filters};
  if (__builtin_mul_overflow(convolution.out_height() * convolution.out_width(), convolution.batch, &product.m) ||
      __builtin_mul_overflow(convolution.filter_height * convolution.filter_width, convolution.channels, &product.k))
    return input_error("the sizes of the convolution's product exceed 64 bits");
  return product;
}

}  // namespace ridge
