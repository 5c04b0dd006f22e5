// Describes o = softmax(scale * q * k^T) * v for each of outer * heads heads, where row r of a head sees only keys r +
// low … r + high. Each heads / key_heads consecutive heads share one head of k and v. A row that sees no key is NaN.
// Calls pass the integers of ragged sequences: the length of each of `outer` sequences, the start of each if sequences
// are packed, and the page table if the key cache is paged.
#pragma once

#include <cstdint>
#include <optional>

#include "ridge/base/dtype.h"

namespace ridge::ops {

// Strides in elements: element (b, h, r, e) has the offset b * outer + h * head + r * row + e.
struct HeadsLayout {
  std::int64_t outer = 0, head = 0, row = 0;
  bool operator==(const HeadsLayout&) const = default;
};

struct AttentionProblem {
  static constexpr std::int64_t unbounded = std::int64_t{1} << 30;  // Value of `high`, and of -`low`, if absent
  DType dtype = DType::bf16;                                        // Type of q, k, v and o
  std::int64_t outer = 1, heads = 1, key_heads = 1;
  std::int64_t rows = 0, keys = 0, width = 0;  // Query rows and keys per head; elements per row
  double scale = 1;
  double cap = 0;                                   // If above 0, a scaled score s becomes cap * tanh(s / cap)
  std::int64_t low = -unbounded, high = unbounded;  // Row r sees keys r + low … r + high
  bool moves_with_rows = true;                      // False if every row sees the keys of row 0
  HeadsLayout q = {}, k = {}, v = {}, o = {};
  struct Lengths {
    std::int64_t length_offset = unbounded;  // At most keys 0 … length + length_offset - 1 are visible
    bool low_from_length = false, high_from_length = false;  // True if the bound adds the length: row + length + low
    bool operator==(const Lengths&) const = default;
  };
  std::optional<Lengths> lengths = {};  // Absent if sequences are uniform
  struct Packed {
    std::int64_t rows = 0, keys = 0;  // Totals over all sequences
    bool operator==(const Packed&) const = default;
  };
  // Present if sequences are concatenated, in q and o as in k and v. The `rows` and `keys` of AttentionProblem are then
  // those of the longest sequence, `lengths` must be present, and outer strides are unused.
  std::optional<Packed> packed = {};
  struct Pages {
    std::int64_t rows = 0, count = 0;  // Rows per page; number of pages
    bool operator==(const Pages&) const = default;
  };
  // Present if k and v are paged: key t of sequence b is row t % rows of page table[b][t / rows], and the outer stride
  // is the distance of pages.
  std::optional<Pages> pages = {};
  bool operator==(const AttentionProblem&) const = default;
};

}  // namespace ridge::ops
