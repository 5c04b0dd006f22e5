#include "ridge/report/cache_lines.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"

namespace ridge {

Cells lines_table(const std::vector<OperandLines>& operands) {
  Cells cells{{"tensor", "rows x columns", "leading", "unit", "first tile", "min", "crossing", "moved / used", "pad to",
               "first tile", "moved / used", "added"}};
  for (const OperandLines& o : operands)
    cells.push_back({o.tensor, fmt::format("{} x {}", o.rows, o.columns), std::to_string(o.leading),
                     fmt::format("{} of {} B", o.unit, o.unit_bytes), std::to_string(o.tile.lines),
                     std::to_string(o.tile.min_lines), std::to_string(o.tile.rows_with_extra_line),
                     format_significant(o.traffic), std::to_string(o.padded_stride),
                     std::to_string(o.padded_tile.lines), format_significant(o.padded_traffic),
                     format_with_prefix(static_cast<double>(o.padding_bytes), "B")});
  return cells;
}

std::string render_lines_json(const std::vector<OperandLines>& operands) {
  Json out{{"schema", "ridge.lines/1"}, {"operands", Json::array()}};
  for (const OperandLines& o : operands)
    out["operands"].push_back({{"tensor", o.tensor},
                               {"rows", o.rows},
                               {"columns", o.columns},
                               {"leading", o.leading},
                               {"unit", o.unit},
                               {"unit_bytes", o.unit_bytes},
                               {"tile_lines", o.tile.lines},
                               {"tile_lines_least", o.tile.min_lines},
                               {"straddling_rows", o.tile.rows_with_extra_line},
                               {"bytes_moved_over_used", o.traffic},
                               {"padded_leading", o.padded_stride},
                               {"padded_tile_lines", o.padded_tile.lines},
                               {"padded_bytes_moved_over_used", o.padded_traffic},
                               {"padding_bytes", o.padding_bytes}});
  return out.dump(2) + "\n";
}

}  // namespace ridge
