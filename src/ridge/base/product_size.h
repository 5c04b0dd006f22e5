// Sizes of a matrix product: A is m x k, B is k x n, D is m x n.
#pragma once

#include <cstdint>

namespace ridge {

struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
  // Number of multiply-adds, in double because it can exceed 64 bits.
  double multiply_adds() const { return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  bool operator==(const ProductSize&) const = default;
};

}  // namespace ridge
