// The band of keys that a query row sees: row + low … row + high. A causal mask has high = keys - rows if the last row
// sees all keys, or high = 0 if row r sees keys 0 … r. A sliding window also has a low.
#pragma once

#include "ridge/ops/attention/problem.h"
#include "ridge/tile/steps.h"

namespace ridge::ops {

// The limits of a band that depend on the length of the sequence.
struct LengthDependence {
  int limit = 1 << 30;    // At most keys 0 … length + limit - 1 exist
  int low = 0, high = 0;  // 1 if the length is added to that limit, else 0
};

// Clamps a length to at most 2^29 in magnitude, so that sums of lengths do not overflow.
TILE_FN constexpr int clamp_length(int length) {
  constexpr int max_length = 1 << 29;
  if (length > max_length) return max_length;
  return length < -max_length ? -max_length : length;
}

struct Band {
  int low = -(1 << 30), high = 1 << 30;
  int keys = 0;
  int row_step = 1;  // 1: the band moves by one key per row; 0: every row sees the keys of row 0

  // Returns the band for a sequence of this length, at most 2^29 in magnitude.
  TILE_FN constexpr Band for_length(int length, const LengthDependence& dependence) const {
    const int limit = length + dependence.limit;
    Band out = *this;
    out.low += length * dependence.low;
    out.high += length * dependence.high;
    if (limit < keys) out.keys = limit < 0 ? 0 : limit;
    return out;
  }
  // Returns the range of keys that a row sees, relative to key `from`.
  TILE_FN constexpr tile::IntRange visible_keys(int row, int from) const {
    return {row * row_step + low - from, end_key(row) - from};
  }
  // No row from `row` on sees a key before the first; no row up to `last_row` sees the end or later keys.
  TILE_FN constexpr int first_key(int row) const { return row * row_step + low > 0 ? row * row_step + low : 0; }
  TILE_FN constexpr int end_key(int last_row) const {
    return last_row * row_step + high + 1 < keys ? last_row * row_step + high + 1 : keys;
  }
  // Returns the range of rows that see a key, relative to row `from`. The next two bound the rows that see any of a
  // range of keys.
  TILE_FN constexpr tile::IntRange visible_rows(int key, int from) const {
    return {key - high - from, key < keys ? key - low + 1 - from : key - high - from};
  }
  TILE_FN constexpr int first_row(int key) const { return key - high > 0 ? key - high : 0; }
  TILE_FN constexpr int end_row(int last_key, int rows) const {
    return last_key - low + 1 < rows ? last_key - low + 1 : rows;
  }
  // True if at least one of the rows does not see one of the keys.
  TILE_FN constexpr bool has_masked_pair(int row, int rows, int key, int count) const {
    return key + count > keys || key + count - 1 > row * row_step + high || key < (row + rows - 1) * row_step + low;
  }
};

// If the band's end depends on the length, also excludes keys that no row sees: a weight of 0 times NaN would be NaN.
constexpr LengthDependence length_dependence_of(const AttentionProblem& p) {
  const AttentionProblem::Lengths& x = *p.lengths;
  std::int64_t limit = x.limit;
  if (x.high && p.high + (p.moves_with_rows ? p.rows : 1) < limit) limit = p.high + (p.moves_with_rows ? p.rows : 1);
  return {static_cast<int>(limit), x.low ? 1 : 0, x.high ? 1 : 0};
}

}  // namespace ridge::ops
