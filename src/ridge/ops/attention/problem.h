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

// Describes the gradients of attention (problem.h) with respect to q, k and v, from the gradient of its result:
//
//   dq = scale * dS k,  dk = scale * dS^T q,  dv = P^T do,  dS = P * (do v^T - delta),  delta = sum of do * o along a
//   row
//
// where P are the weights of the forward pass, recomputed from lse, each row's log of the sum of exponentials. Rows
// that see no key, and keys that no row sees, have zero gradients. Heads that share k and v add to the same dk and dv.
// Formats are those of the forward pass. Computation and sums are f32; Hopper rounds P and dS to the operands' format.
struct AttentionBackwardProblem {
  AttentionProblem forward;  // Type, sizes, scale, mask and layouts of q, k, v and o
  HeadsLayout dout = {}, dq = {}, dk = {}, dv = {};
  bool ordered = false;  // Adds to dq in a fixed order, so that runs agree bit by bit
  bool operator==(const AttentionBackwardProblem&) const = default;
};

// Pointers address the first element.
struct AttentionBackwardData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *dout = nullptr;
  const float* lse = nullptr;  // [outer, heads, rows]
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

}  // namespace ridge::ops
