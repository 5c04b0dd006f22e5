// A convolution as a matrix product (im2col): every output pixel is a row of the windows it looks at, every filter a
// column. AlexNet's first layer, 224×224×3 under 96 filters of 11×11 with stride 4, is M 55·55, N 96, K 363.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// Pixels, without padding. A side has ⌈(image − filter + stride)/stride⌉ outputs, as SCALE-Sim counts: where the stride
// leaves a remainder that is one window more than fits (55, not 54, above); the part outside the image is not fetched.
struct Convolution {
  std::int64_t height = 1, width = 1;  // of the image
  std::int64_t filter_height = 1, filter_width = 1;
  std::int64_t channels = 1, filters = 1;
  std::int64_t stride = 1;  // both ways
  std::int64_t batch = 1;   // images
  std::int64_t out_height() const { return (height - filter_height + stride - 1) / stride + 1; }
  std::int64_t out_width() const { return (width - filter_width + stride - 1) / stride + 1; }
  bool operator==(const Convolution&) const = default;
};

// Errors: a size below 1 or over 2^31 − 1, a filter larger than the image, a product that leaves 64 bits.
Result<ProductSize> as_product(const Convolution& convolution);

}  // namespace ridge
