// Division of a group's sums into pieces, for operands whose sums tensor cores round too early: Hopper keeps 13 bits of
// sums of 8-bit operands. 128 elements of k are multiplied into pieces, and threads add the pieces in f32 (ring.h,
// `multiply_in_pieces`). The groups of a tile take turns: one multiplies a piece while the others add theirs. A group
// that is alone has registers for two pieces, and the tensor cores multiply one while threads add the other.
#pragma once

namespace ridge::tile {

// Pieces of m x n sums of one of `groups` groups: 64 rows, and wide where registers allow it, because the tensor
// cores read the left operand from shared memory for each piece. Sums of up to 64 rows and columns are one piece: wgmma
// is slow below 64 columns.
struct SumPieces {
  static constexpr int added_bytes = 128;  // Bytes along k whose products a piece sums
  int m = 64, n = 8, groups = 1;
  constexpr int down() const { return m / 64; }
  constexpr int across() const {
    const int widest[] = {64, 192, 128};  // for one, two or three groups
    if (n <= widest[groups - 1]) return 1;
    if (groups > 1) return 2;
    return n > 192 ? 4 : 2;
  }
  constexpr int count() const { return down() * across(); }
  constexpr int buffers() const { return groups > 1 || count() == 1 ? 1 : 2; }
  constexpr int first_row(int piece) const { return piece / across() * 64; }
  constexpr int first_column(int piece) const { return n / 16 * (piece % across()) / across() * 16; }
  constexpr int columns(int piece) const {
    return (piece % across() == across() - 1 ? n : first_column(piece + 1)) - first_column(piece);
  }
  constexpr int max_columns() const { return columns(across() - 1); }
  // True if pieces that use the same registers have the same width: ptxas serializes the products otherwise.
  constexpr bool have_equal_registers() const { return groups == 1 || across() == 1 || n % (16 * across()) == 0; }
  // Returns the registers of a thread for the sums and the pieces.
  constexpr int registers() const { return m * n / 128 + buffers() * max_columns() / 2; }
};

// Buffers for the scales of a tile's rows and columns, each for `scale_quad` blocks of k (ring.h).
inline constexpr int scale_buffers = 2;

}  // namespace ridge::tile
