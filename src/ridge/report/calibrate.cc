#include "ridge/report/calibrate.h"

#include <fmt/format.h>

#include "ridge/report/json_values.h"
#include "ridge/report/table.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::vector<std::string> error_row(const char* what, const PredictionErrors& x, bool has_interval) {
  return {what,
          std::to_string(x.kernels),
          format_percent(x.mean),
          format_percent(x.median),
          format_percent(x.percentile_90),
          has_interval ? format_percent(x.fraction_inside) : "-"};
}

Json errors_json(const PredictionErrors& x) {
  return {{"kernels", x.kernels},
          {"mean", x.mean},
          {"median", x.median},
          {"percentile_90", x.percentile_90},
          {"inside", x.fraction_inside}};
}

}  // namespace

std::string render_text(const CalibrationReport& report, const TextStyle& style) {
  const Calibration& c = report.calibration;
  std::string out =
      fmt::format("{}, {} kernels ({}), from {}\n", c.title, dtype_name(c.dtype), c.formula->name, report.source);
  out += text_table({{"by", "kernels", "mean error", "median", "90th percentile", "in the interval"},
                     error_row("these numbers, fitted", c.fitted_errors, true),
                     error_row("these numbers, held out", c.held_out_errors, true),
                     error_row("previous numbers", c.previous_errors, true),
                     error_row("bare roofline", c.roofline_errors, false)},
                    {.right = {false, true, true, true, true, true}, .is_in_csv = false}, style);
  out += fmt::format("interval: {:.2f} to {:.2f} times the predicted time, for 80 % of the fitted kernels\n",
                     c.spread.low, c.spread.high);
  out += "\n" + format_machine_lines(c, report.source, report.day);
  for (const std::string& path : {report.machine_path, report.points_path})
    if (!path.empty()) out += "written to " + path + "\n";
  return out;
}

std::string render_json(const CalibrationReport& report) {
  const Calibration& c = report.calibration;
  Json out{{"schema", "ridge.calibration/1"},
           {"machine", c.machine},
           {"form", c.formula->name},
           {"dtype", dtype_name(c.dtype)},
           {"source", report.source},
           {"day", report.day},
           {"numbers", Json::object()},
           {"spread", {{"low", c.spread.low}, {"middle", c.spread.middle}, {"high", c.spread.high}}},
           {"fitted", errors_json(c.fitted_errors)},
           {"apart", errors_json(c.held_out_errors)},
           {"before", errors_json(c.previous_errors)},
           {"roofline", errors_json(c.roofline_errors)}};
  for (std::size_t i = 0; i < c.numbers.size(); ++i)
    out["numbers"][std::string(c.formula->numbers[i].key)] = c.numbers[i];
  return out.dump(1) + "\n";
}

}  // namespace ridge
