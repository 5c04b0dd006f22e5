// A convolution as a matrix product (im2col): every output pixel is a row, its window of the image, and every filter a
// column. AlexNet's first layer, 224×224×3 under 96 filters of 11×11 with stride 4, is M 55·55, N 96, K 363.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// Sizes in pixels, without padding. A side has ⌈(image − filter + stride)/stride⌉ outputs, as SCALE-Sim counts. If the
// stride leaves a remainder, that is one window more than fits (55 instead of 54 above); pixels outside the image are
// not fetched.
struct Convolution {
  std::int64_t height = 1, width = 1;  // size of the image
  std::int64_t filter_height = 1, filter_width = 1;
  std::int64_t channels = 1, filters = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t batch = 1;  // number of images
  std::int64_t out_height() const { return (height - filter_height + stride_height - 1) / stride_height + 1; }
  std::int64_t out_width() const { return (width - filter_width + stride_width - 1) / stride_width + 1; }
  bool operator==(const Convolution&) const = default;
};

// Returns the product's sizes. Errors: a size outside 1 to 2^31 − 1, a filter larger than the image, over 64 bits.
Result<ProductSize> to_product_size(const Convolution& convolution);

}  // namespace ridge
