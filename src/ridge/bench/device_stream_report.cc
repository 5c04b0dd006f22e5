#include "ridge/bench/device_stream_report.h"

#include <fmt/format.h>

#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_device_stream(const DeviceStreamBenchmark& benchmark, const TextStyle& style) {
  Cells rows{
      {"kernel      ", "dtype  ", " columns", "    ridge", "     copy", "   ratio", "     low   high", "    bar"}};
  for (const DeviceStreamRow& row : benchmark.rows) {
    const auto rate = [&](double seconds) { return row.bytes / seconds * 1e-9; };
    const auto bar = row.stream_case.min_allowed_ratio();
    rows.push_back({std::string(row.stream_case.kernel), std::string(dtype_name(row.stream_case.dtype)),
                    row.stream_case.columns == 0 ? "-" : std::to_string(row.stream_case.columns),
                    fmt::format("{:.0f}", rate(row.ridge_time.median)),
                    fmt::format("{:.0f}", rate(row.copy_time.median)), fmt::format("{:.3f}", row.ratio),
                    fmt::format("{:.3f}{:>7.3f}", row.ratio_low, row.ratio_high),
                    bar ? fmt::format("{:.2f}", *bar) : "-"});
  }
  std::string out = text_table(rows,
                               {.right = {false, false, true, true, true, true, true, true},
                                .omit_first = {"low   high", "dtype"},
                                .separator = ""},
                               style);
  out += fmt::format(
      "\nGB/s read and written, median of {} rounds, arrays of {} elements; copy: a copy of as many bytes; "
      "ratio: ridge over copy\n{}, driver {}.{}\n",
      benchmark.rounds, benchmark.elements, benchmark.device, benchmark.driver / 1000, benchmark.driver % 1000 / 10);
  if (!benchmark.note.empty()) out += "note: " + benchmark.note + "\n";
  return out;
}

nlohmann::ordered_json device_stream_json(const DeviceStreamBenchmark& benchmark) {
  nlohmann::ordered_json out{{"schema", "ridge.device_stream/1"},
                             {"version", version()},
                             {"commit", commit()},
                             {"day", benchmark.day},
                             {"device", benchmark.device},
                             {"driver", benchmark.driver},
                             {"elements", benchmark.elements},
                             {"rounds", benchmark.rounds}};
  if (!benchmark.note.empty()) out["note"] = benchmark.note;
  if (benchmark.clocks)
    out["clocks"] = {{"sm_hz", benchmark.clocks->sm_hz}, {"slowed_by", benchmark.clocks->throttle_reasons}};
  const auto times = [](const Statistics& s) {
    return nlohmann::ordered_json{{"median_s", s.median}, {"min_s", s.min}, {"max_s", s.max}};
  };
  for (const DeviceStreamRow& row : benchmark.rows) {
    out["rows"].push_back({{"kernel", row.stream_case.kernel},
                           {"dtype", dtype_name(row.stream_case.dtype)},
                           {"columns", row.stream_case.columns},
                           {"bytes", row.bytes},
                           {"ridge", times(row.ridge_time)},
                           {"copy", times(row.copy_time)},
                           {"ratio", row.ratio},
                           {"ratio_low", row.ratio_low},
                           {"ratio_high", row.ratio_high},
                           {"bar", nullptr},
                           {"max_error", row.error},
                           {"allowed_error", row.allowed_error}});
    if (const auto bar = row.stream_case.min_allowed_ratio()) out["rows"].back()["bar"] = *bar;
  }
  return out;
}

}  // namespace ridge
