#include "ridge/report/contest/device_stream.h"

#include <fmt/format.h>

#include "ridge/base/version.h"

namespace ridge {

std::string device_stream_text(const DeviceStream& contest) {
  std::string out = fmt::format("{:<12}{:<7}{:>8}{:>9}{:>9}{:>8}{:>15}{:>7}\n", "kernel", "dtype", "columns", "ridge",
                                "copy", "ratio", "low   high", "bar");
  for (const DeviceStreamRow& row : contest.rows) {
    const auto rate = [&](double seconds) { return row.bytes / seconds * 1e-9; };
    const auto bar = row.what.bar();
    out += fmt::format("{:<12}{:<7}{:>8}{:>9.0f}{:>9.0f}{:>8.3f}{:>8.3f}{:>7.3f}{:>7}\n", row.what.kernel,
                       name(row.what.dtype), row.what.columns == 0 ? "-" : std::to_string(row.what.columns),
                       rate(row.ours.median), rate(row.copy.median), row.ratio, row.low, row.high,
                       bar ? fmt::format("{:.2f}", *bar) : "-");
  }
  out += fmt::format(
      "\nGB/s read and written, median of {} rounds, arrays of {} elements; copy: a copy of as many bytes; "
      "ratio: ridge over copy\n{}, driver {}.{}\n",
      contest.rounds, contest.elements, contest.device, contest.driver / 1000, contest.driver % 1000 / 10);
  if (!contest.note.empty()) out += "note: " + contest.note + "\n";
  return out;
}

nlohmann::ordered_json device_stream_json(const DeviceStream& contest) {
  nlohmann::ordered_json out{{"schema", "ridge.device_stream/1"},
                             {"version", version()},
                             {"commit", commit()},
                             {"day", contest.day},
                             {"device", contest.device},
                             {"driver", contest.driver},
                             {"elements", contest.elements},
                             {"rounds", contest.rounds}};
  if (!contest.note.empty()) out["note"] = contest.note;
  if (contest.clocks) out["clocks"] = {{"sm_hz", contest.clocks->sm_hz}, {"slowed_by", contest.clocks->slowed_by}};
  const auto times = [](const Statistics& s) {
    return nlohmann::ordered_json{{"median_s", s.median}, {"min_s", s.min}, {"max_s", s.max}};
  };
  for (const DeviceStreamRow& row : contest.rows) {
    out["rows"].push_back({{"kernel", row.what.kernel},
                           {"dtype", name(row.what.dtype)},
                           {"columns", row.what.columns},
                           {"bytes", row.bytes},
                           {"ridge", times(row.ours)},
                           {"copy", times(row.copy)},
                           {"ratio", row.ratio},
                           {"ratio_low", row.low},
                           {"ratio_high", row.high},
                           {"bar", nullptr},
                           {"max_error", row.error},
                           {"allowed_error", row.allowed}});
    if (const auto bar = row.what.bar()) out["rows"].back()["bar"] = *bar;
  }
  return out;
}

}  // namespace ridge
