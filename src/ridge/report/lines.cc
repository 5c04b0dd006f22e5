#include "ridge/report/lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"

namespace ridge {

Cells lines_table(const std::vector<OperandLines>& operands) {
  Cells cells{{"tensor", "rows x columns", "leading", "in", "first tile", "least", "straddle", "moved / used", "pad to",
               "then", "moved / used", "larger by"}};
  for (const OperandLines& o : operands)
    cells.push_back({o.tensor, fmt::format("{} x {}", o.rows, o.columns), std::to_string(o.leading),
                     fmt::format("{} of {} B", o.unit, o.unit_bytes), std::to_string(o.tile.lines),
                     std::to_string(o.tile.least), std::to_string(o.tile.straddling), significant(o.traffic),
                     std::to_string(o.padded), std::to_string(o.padded_tile.lines), significant(o.padded_traffic),
                     engineering(static_cast<double>(o.padding_bytes), "B")});
  return cells;
}

std::string render_lines_json(const std::vector<OperandLines>& operands) {
  using Json = nlohmann::ordered_json;
  Json out{{"schema", "ridge.lines/1"}, {"operands", Json::array()}};
  for (const OperandLines& o : operands)
    out["operands"].push_back({{"tensor", o.tensor},
                               {"rows", o.rows},
                               {"columns", o.columns},
                               {"leading", o.leading},
                               {"unit", o.unit},
                               {"unit_bytes", o.unit_bytes},
                               {"tile_lines", o.tile.lines},
                               {"tile_lines_least", o.tile.least},
                               {"straddling_rows", o.tile.straddling},
                               {"bytes_moved_over_used", o.traffic},
                               {"padded_leading", o.padded},
                               {"padded_tile_lines", o.padded_tile.lines},
                               {"padded_bytes_moved_over_used", o.padded_traffic},
                               {"padding_bytes", o.padding_bytes}});
  return out.dump(2) + "\n";
}

}  // namespace ridge
