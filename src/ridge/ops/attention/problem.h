// o = softmax(scale * q * k^T) * v for each of outer * heads heads, where row r of a head sees keys r + low … r + high
// alone;
// heads / key_heads heads in a row share one of k and v. A row that sees no key is NaN, as a softmax of nothing. Where
// sequences differ in length, a call brings whole numbers: a length for each of outer; where each begins, of sequences
// that lie one behind the other; which pages hold its keys, of a cache in pages.
#pragma once

#include <cstdint>
#include <optional>

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
  struct Lengths {
    std::int64_t limit = far;        // keys 0 … length + limit - 1 are seen at most
    bool low = false, high = false;  // sides of the band that are counted from the length: row + length + low
    bool operator==(const Lengths&) const = default;
  };
  std::optional<Lengths> lengths = {};  // none: sequences are alike
  struct Packed {
    std::int64_t rows = 0, keys = 0;  // of all sequences
    bool operator==(const Packed&) const = default;
  };
  // Sequences lie one behind the other, in q and o as in k and v; rows and keys are those of the longest. They have
  // lengths, which are how many keys each has, and no strides from one to the next.
  std::optional<Packed> packed = {};
  struct Pages {
    std::int64_t rows = 0, count = 0;  // of one; of all
    bool operator==(const Pages&) const = default;
  };
  // k and v lie in pages, whose stride is the outer one: key t of sequence b is row t % rows of page table[b][t /
  // rows].
  std::optional<Pages> pages = {};
  bool operator==(const AttentionProblem&) const = default;
};

}  // namespace ridge::ops
