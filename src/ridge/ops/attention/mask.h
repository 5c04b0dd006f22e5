// The band of keys that a query row sees: row + low … row + high. A causal mask has high = keys - rows if the last row
// sees all keys, or high = 0 if row r sees keys 0 … r. A sliding window also has a low.
#pragma once

#include "ridge/ops/attention/problem.h"
#include "ridge/tile/steps.h"

namespace ridge::ops {

// The limits of a band that depend on the length of the sequence.
struct Moves {
  int limit = 1 << 30;    // At most keys 0 … length + limit - 1 exist
  int low = 0, high = 0;  // 1 if the length is added to that limit, else 0
};

// Clamps a length to at most 2^29 in magnitude, so that sums of lengths do not overflow.
TILE_FN constexpr int within_reach(int length) {
  constexpr int most = 1 << 29;
  if (length > most) return most;
  return length < -most ? -most : length;
}

struct Band {
  int low = -(1 << 30), high = 1 << 30;
  int keys = 0;
  int walks = 1;  // 1: the band moves by one key per row; 0: every row sees the keys of row 0

  // Returns the band for a sequence of this length, at most 2^29 in magnitude.
  TILE_FN constexpr Band of(int length, const Moves& moves) const {
    const int limit = length + moves.limit;
    Band out = *this;
    out.low += length * moves.low;
    out.high += length * moves.high;
    if (limit < keys) out.keys = limit < 0 ? 0 : limit;
    return out;
  }
  // Returns the range of keys that a row sees, relative to key `from`.
  TILE_FN constexpr tile::Span seen(int row, int from) const { return {row * walks + low - from, end(row) - from}; }
  // No row from `row` on sees a key before the first; no row up to `last_row` sees the end or later keys.
  TILE_FN constexpr int first(int row) const { return row * walks + low > 0 ? row * walks + low : 0; }
  TILE_FN constexpr int end(int last_row) const {
    return last_row * walks + high + 1 < keys ? last_row * walks + high + 1 : keys;
  }
  // Returns the range of rows that see a key, relative to row `from`. The next two bound the rows that see any of a
  // range of keys.
  TILE_FN constexpr tile::Span seen_by(int key, int from) const {
    return {key - high - from, key < keys ? key - low + 1 - from : key - high - from};
  }
  TILE_FN constexpr int first_row(int key) const { return key - high > 0 ? key - high : 0; }
  TILE_FN constexpr int end_row(int last_key, int rows) const {
    return last_key - low + 1 < rows ? last_key - low + 1 : rows;
  }
  // True if at least one of the rows does not see one of the keys.
  TILE_FN constexpr bool cuts(int row, int rows, int key, int count) const {
    return key + count > keys || key + count - 1 > row * walks + high || key < (row + rows - 1) * walks + low;
  }
};

// If the band's end depends on the length, also excludes keys that no row sees: a weight of 0 times NaN would be NaN.
constexpr Moves moves_of(const AttentionProblem& p) {
  const AttentionProblem::Lengths& x = *p.lengths;
  std::int64_t limit = x.limit;
  if (x.high && p.high + (p.walks ? p.rows : 1) < limit) limit = p.high + (p.walks ? p.rows : 1);
  return {static_cast<int>(limit), x.low ? 1 : 0, x.high ? 1 : 0};
}

}  // namespace ridge::ops
