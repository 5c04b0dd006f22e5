// o = softmax(scale * q * k^T) * v for each of outer * heads heads, where row r of a head sees keys r + low … r + high
// alone;
// heads / key_heads heads in a row share one of k and v. A row that sees no key is NaN, as a softmax of nothing.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

// Element (b, h, r, e) lies at b * outer + h * head + r * row + e, in elements.
struct HeadsLayout {
  std::int64_t outer = 0, head = 0, row = 0;
  bool operator==(const HeadsLayout&) const = default;
};

struct AttentionProblem {
  static constexpr std::int64_t far = std::int64_t{1} << 30;  // a side of the band that is not there
  DType dtype = DType::bf16;                                  // of q, k, v and o
  std::int64_t outer = 1, heads = 1, key_heads = 1;
  std::int64_t rows = 0, keys = 0, width = 0;
  double scale = 1;
  double cap = 0;  // above 0: a scaled score s counts as cap * tanh(s / cap)
  std::int64_t low = -far, high = far;
  bool walks = true;  // false: every row sees what row 0 does
  HeadsLayout q = {}, k = {}, v = {}, o = {};
  bool operator==(const AttentionProblem&) const = default;
};

}  // namespace ridge::ops
