// The band of keys that a query row sees: row + low … row + high. A causal mask has high = keys - rows if the last row
// sees all keys, or high = 0 if row r sees keys 0 … r. A sliding window also has a low.
#pragma once

#include "ridge/ops/attention/problem.h"
#include "ridge/tile/steps.h"

namespace ridge::ops {

// Tells how the bounds of a band depend on the length of the sequence.
struct LengthDependence {
  int length_offset = 1 << 30;          // At most keys 0 … length + length_offset - 1 exist
  int low_factor = 0, high_factor = 0;  // 1 if the length is added to `low` or `high`, else 0
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
  int keys_per_row = 1;  // Shift of the band per row: 1, or 0 if every row sees the keys of row 0

  // Returns the band for a sequence of this length, at most 2^29 in magnitude.
  TILE_FN constexpr Band for_length(int length, const LengthDependence& dependence) const {
    const int limit = length + dependence.length_offset;
    Band out = *this;
    out.low += length * dependence.low_factor;
    out.high += length * dependence.high_factor;
    if (limit < keys) out.keys = limit < 0 ? 0 : limit;
    return out;
  }
  // Returns the range of keys that a row sees, relative to key `from`.
  TILE_FN constexpr tile::IntRange visible_keys(int row, int from) const {
    return {row * keys_per_row + low - from, end_key(row) - from};
  }
  // Rows at or after `row` see no key before first_key(row); rows up to `last_row` see no key from end_key(last_row)
  // on.
  TILE_FN constexpr int first_key(int row) const { return row * keys_per_row + low > 0 ? row * keys_per_row + low : 0; }
  TILE_FN constexpr int end_key(int last_row) const {
    return last_row * keys_per_row + high + 1 < keys ? last_row * keys_per_row + high + 1 : keys;
  }
  // Returns the range of rows that see a key, relative to row `from`.
  TILE_FN constexpr tile::IntRange visible_rows(int key, int from) const {
    return {key - high - from, key < keys ? key - low + 1 - from : key - high - from};
  }
  // Keys at or after `key` are seen by no row before first_row(key); keys up to `last_key` by none from end_row() on.
  TILE_FN constexpr int first_row(int key) const { return key - high > 0 ? key - high : 0; }
  TILE_FN constexpr int end_row(int last_key, int rows) const {
    return last_key - low + 1 < rows ? last_key - low + 1 : rows;
  }
  // True if one of the `rows` rows from `row` on does not see one of the `count` keys from `key` on.
  TILE_FN constexpr bool has_masked_pair(int row, int rows, int key, int count) const {
    return key + count > keys || key + count - 1 > row * keys_per_row + high ||
           key < (row + rows - 1) * keys_per_row + low;
  }
};

// If the band's upper bound depends on the length, the result also excludes keys that no row sees, because a weight of
// 0 times NaN would be NaN.
constexpr LengthDependence length_dependence_of(const AttentionProblem& p) {
  const AttentionProblem::Lengths& x = *p.lengths;
  std::int64_t offset = x.length_offset;
  const std::int64_t band_end = p.high + (p.moves_with_rows ? p.rows : 1);
  if (x.high_from_length && band_end < offset) offset = band_end;
  return {static_cast<int>(offset), x.low_from_length ? 1 : 0, x.high_from_length ? 1 : 0};
}

}  // namespace ridge::ops
