// Which keys a row of queries sees: those of a band, row + low … row + high. Causal is high = keys - rows where the
// last row sees all keys, or 0 where row r sees keys 0 … r; a sliding window has a low as well.
#pragma once

#include "ridge/ops/attention/problem.h"
#include "ridge/tile/steps.h"

namespace ridge::ops {

// What of a band goes with the length of a sequence.
struct Moves {
  int limit = 1 << 30;    // keys 0 … length + limit - 1 are there at most
  int low = 0, high = 0;  // 1: that side
};

// Longer ones are taken for as long as that.
TILE_FN constexpr int within_reach(int length) {
  constexpr int most = 1 << 29;
  if (length > most) return most;
  return length < -most ? -most : length;
}

struct Band {
  int low = -(1 << 30), high = 1 << 30;
  int keys = 0;
  int walks = 1;  // 0: every row sees what row 0 does

  // That of a sequence of this length, which is within 2^29 of 0.
  TILE_FN constexpr Band of(int length, const Moves& moves) const {
    const int limit = length + moves.limit;
    Band out = *this;
    out.low += length * moves.low;
    out.high += length * moves.high;
    if (limit < keys) out.keys = limit < 0 ? 0 : limit;
    return out;
  }
  // The keys that a row sees, counted from a key on.
  TILE_FN constexpr tile::Span seen(int row, int from) const { return {row * walks + low - from, end(row) - from}; }
  // Keys first … end - 1 are all that any of these rows may see.
  TILE_FN constexpr int first(int row) const { return row * walks + low > 0 ? row * walks + low : 0; }
  TILE_FN constexpr int end(int last_row) const {
    return last_row * walks + high + 1 < keys ? last_row * walks + high + 1 : keys;
  }
  // The rows that see a key, counted from a row on, and what all that may see keys first … end - 1 are among.
  TILE_FN constexpr tile::Span seen_by(int key, int from) const {
    return {key - high - from, key < keys ? key - low + 1 - from : key - high - from};
  }
  TILE_FN constexpr int first_row(int key) const { return key - high > 0 ? key - high : 0; }
  TILE_FN constexpr int end_row(int last_key, int rows) const {
    return last_key - low + 1 < rows ? last_key - low + 1 : rows;
  }
  // Some of these rows do not see some of these keys.
  TILE_FN constexpr bool cuts(int row, int rows, int key, int count) const {
    return key + count > keys || key + count - 1 > row * walks + high || key < (row + rows - 1) * walks + low;
  }
};

// Where the band's end goes with the length, what no row sees is not there: a weight of 0 of a NaN would be one.
constexpr Moves moves_of(const AttentionProblem& p) {
  const AttentionProblem::Lengths& x = *p.lengths;
  std::int64_t limit = x.limit;
  if (x.high && p.high + (p.walks ? p.rows : 1) < limit) limit = p.high + (p.walks ? p.rows : 1);
  return {static_cast<int>(limit), x.low ? 1 : 0, x.high ? 1 : 0};
}

}  // namespace ridge::ops
