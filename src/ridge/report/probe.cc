// Results of `ridge probe`, as text and JSON.
#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

std::string render_probe_text(const ProbeReport& probe, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{{"what", "cores", "median", "min .. max", "runs", ""}};
  for (const ProbeLine& line : probe.lines)
    rows.push_back({line.name, std::to_string(line.cores), format_with_prefix(line.rate.median, line.unit),
                    fmt::format("{} .. {}", format_with_prefix(line.rate.min, line.unit),
                                format_with_prefix(line.rate.max, line.unit)),
                    std::to_string(line.rate.runs), line.note});
  std::string out =
      probe.machine.title + "\n" +
      text_table(rows, {.right = {false, true, true, true, true, false}, .omit_first = {"runs", "min .. max", "cores"}},
                 style);
  if (!probe.path.empty()) out += "written to " + probe.path + "\n";
  return out;
}

std::string render_probe_json(const ProbeReport& probe) {
  Json out{{"schema", "ridge.probe/1"}, {"machine", probe.machine.name}, {"title", probe.machine.title}};
  out["measured"] = Json::array();
  for (const ProbeLine& line : probe.lines) {
    std::string unit = "flops_per_s";
    if (line.unit == "B/s") unit = "bytes_per_s";
    if (line.unit == "s") unit = "seconds";
    if (line.unit == "FLOP") unit = "flops";
    Json row{{"name", line.name}, {"cores", line.cores}};
    row[unit] = {
        {"median", line.rate.median}, {"min", line.rate.min}, {"max", line.rate.max}, {"runs", line.rate.runs}};
    if (!line.note.empty()) row["note"] = line.note;
    out["measured"].push_back(std::move(row));
  }
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
