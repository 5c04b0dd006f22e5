// Memory moves whole lines (128 B on a GPU) or sectors of them (32 B). A tile that reads `width` columns of every row
// of a row-major matrix touches more of them than its bytes need where a row begins inside a line: with f32 and lines
// of 16 bytes, the first 4 columns of a 4 x 12 matrix are 4 lines, of a 4 x 13 matrix 7, because the rows begin at 0,
// 52, 104 and 156. Padding the leading dimension to a multiple of the line puts every row at a line's begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/program/program.h"

namespace ridge {

// Columns first..first + width - 1 of every row. 0 <= first, 1 <= width, first + width <= leading; every number below
// 2^40. Element i of row r lies at bit (r * leading + i) * element_bits.
struct TileAccess {
  std::int64_t rows = 1, leading = 1, first = 0, width = 1;
  std::int64_t element_bits = 32, line_bytes = 128;
};

struct LineCount {
  std::int64_t lines = 0;       // distinct ones
  std::int64_t least = 0;       // that the bytes would need if every row began at a line's begin
  std::int64_t straddling = 0;  // rows that touch one line more than that
  bool operator==(const LineCount&) const = default;
};
LineCount count_lines(const TileAccess& access);

// The smallest leading dimension from `leading` on whose rows all begin at a line's begin.
std::int64_t padded_leading(std::int64_t leading, std::int64_t element_bits, std::int64_t line_bytes);

// One operand read in tiles of some columns, all its rows at a time; `tile` is the first one.
struct OperandLines {
  std::string tensor, unit;  // "line" or "sector"
  std::int64_t rows = 0, columns = 0, leading = 0, unit_bytes = 0;
  LineCount tile;
  double traffic = 1;  // bytes moved for all tiles over bytes used
  std::int64_t padded = 0;
  LineCount padded_tile;
  double padded_traffic = 1;
  std::int64_t padding_bytes = 0;  // that the padded matrix is larger
};

struct LinesRequest {
  std::int64_t columns = 0;                // of a tile; a matrix with fewer is one tile
  Bindings leading;                        // by tensor; others are as wide as their columns
  std::optional<std::int64_t> line_bytes;  // in place of the machine's
};

// Every tensor of the program, its last axis as columns and the product of the others as rows; a line and, where the
// machine has them, a sector of each. Errors: a dimension without value, a leading dimension below the columns, a
// tensor that the program lacks, no line_bytes.
Result<std::vector<OperandLines>> operand_lines(const Program& program, const Machine& machine, const Bindings& given,
                                                const LinesRequest& request);

}  // namespace ridge
