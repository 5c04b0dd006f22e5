#include "ridge/report/calibrate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/report/words.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> row(const char* what, const LibraryErrors& x, bool has_interval) {
  return {what,
          std::to_string(x.kernels),
          percent(x.mean),
          percent(x.median),
          percent(x.percentile_90),
          has_interval ? percent(x.inside) : "-"};
}

Json errors_json(const LibraryErrors& x) {
  return {{"kernels", x.kernels},
          {"mean", x.mean},
          {"median", x.median},
          {"percentile_90", x.percentile_90},
          {"inside", x.inside}};
}

}  // namespace

std::string render_text(const CalibrationReport& report) {
  const Calibration& c = report.found;
  std::string out = fmt::format("{}, {} kernels ({}), from {}\n", c.title, name(c.dtype), c.form->name, report.source);
  out += aligned({{"by", "kernels", "off by", "half by at most", "nine of ten by at most", "in the interval"},
                  row("these numbers, fitted", c.fitted, true),
                  row("these numbers, kept apart", c.apart, true),
                  row("the machine's numbers before", c.before, true),
                  row("bare roofline", c.roofline, false)},
                 {false, true, true, true, true, true});
  out += fmt::format("interval: {:.2f} to {:.2f} times the predicted time, eight of ten of the kernels fitted\n",
                     c.spread.low, c.spread.high);
  out += "\n" + machine_lines(c, report.source, report.day);
  for (const std::string& path : {report.path, report.points})
    if (!path.empty()) out += "written to " + path + "\n";
  return out;
}

std::string render_json(const CalibrationReport& report) {
  const Calibration& c = report.found;
  Json out{{"schema", "ridge.calibration/1"},
           {"machine", c.machine},
           {"form", c.form->name},
           {"dtype", name(c.dtype)},
           {"source", report.source},
           {"day", report.day},
           {"numbers", Json::object()},
           {"spread", {{"low", c.spread.low}, {"middle", c.spread.middle}, {"high", c.spread.high}}},
           {"fitted", errors_json(c.fitted)},
           {"apart", errors_json(c.apart)},
           {"before", errors_json(c.before)},
           {"roofline", errors_json(c.roofline)}};
  for (std::size_t i = 0; i < c.numbers.size(); ++i) out["numbers"][std::string(c.form->numbers[i].key)] = c.numbers[i];
  return out.dump(1) + "\n";
}

}  // namespace ridge
