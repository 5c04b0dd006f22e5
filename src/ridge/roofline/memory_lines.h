// Memory moves complete lines (128 B on a GPU) or sectors of them (32 B). A tile that reads `width` columns of every
// row of a row-major matrix touches more of them than its bytes need if rows begin inside a line: with f32 and 16-byte
// lines, the first 4 columns of a 4 x 12 matrix are in 4 lines, of a 4 x 13 matrix in 7, as rows begin at bytes 0, 52,
// 104, 156. With a leading dimension that is a multiple of the line, every row begins at a line boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/program/program.h"

namespace ridge {

// Columns first..first + width - 1 of every row; 0 <= first, 1 <= width, first + width <= leading, all below 2^40.
// Element i of row r begins at bit (r * leading + i) * element_bits.
struct TileAccess {
  std::int64_t rows = 1, leading = 1, first = 0, width = 1;
  std::int64_t element_bits = 32, line_bytes = 128;
};

struct LineCount {
  std::int64_t lines = 0;                 // Number of distinct lines
  std::int64_t min_lines = 0;             // Number of lines if every row began at a line boundary
  std::int64_t rows_with_extra_line = 0;  // Number of rows that touch one line more than that
  bool operator==(const LineCount&) const = default;
};
LineCount count_lines(const TileAccess& access);

// Returns the smallest leading dimension of at least `leading` for which every row begins at a line boundary.
std::int64_t pad_leading_dimension(std::int64_t leading, std::int64_t element_bits, std::int64_t line_bytes);

// One operand that is read in tiles of some columns and all rows; `tile` describes the first tile.
struct OperandLines {
  std::string tensor, unit;  // "line" or "sector"
  std::int64_t rows = 0, columns = 0, leading = 0, unit_bytes = 0;
  LineCount tile;
  double traffic = 1;  // Bytes moved for all tiles / bytes used
  std::int64_t padded_stride = 0;
  LineCount padded_tile;
  double padded_traffic = 1;
  std::int64_t padding_bytes = 0;  // Additional bytes of the padded matrix
};

struct LinesRequest {
  std::int64_t columns = 0;                // Columns of a tile; a matrix with fewer columns is one tile
  Bindings leading;                        // Leading dimension by tensor; the default is the number of columns
  std::optional<std::int64_t> line_bytes;  // Replaces the line size of the machine
};

// Analyzes every tensor of the program: its last axis gives the columns, the product of the others the rows. Counts
// lines and, if the machine has them, sectors. Errors: a dimension without a value, a leading dimension below the
// columns, an unknown tensor, no line_bytes.
Result<std::vector<OperandLines>> analyze_tile_alignment(const Program& program, const Machine& machine,
                                                         const Bindings& given, const LinesRequest& request);

}  // namespace ridge
