#include "ridge/report/contest/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ridge/base/version.h"

namespace ridge {

std::string contest_text(const Contest& contest) {
  std::size_t wide = 5;
  for (const auto& row : contest.rows) wide = std::max(wide, row.shape.dtypes().size());
  std::string out = fmt::format("{:<6} {:<{}} {:>6} {:>6} {:>6}", "op", "dtype", wide, "m", "n", "k");
  if (!contest.rows.empty())
    for (const auto& t : contest.rows[0].times) out += fmt::format(" {:>9}", t.library);
  out += fmt::format(" {:>6} {:>13} {:>7}\n", "ratio", "rounds", "of peak");
  for (const auto& row : contest.rows) {
    const auto& s = row.shape;
    out += fmt::format("{:<6} {:<{}} {:>6} {:>6} {:>6}", s.op, s.dtypes(), wide, s.m, s.n, s.k);
    for (const auto& t : row.times)
      out += t.took_part ? fmt::format(" {:>9.1f}", t.flop_per_s / 1e9) : fmt::format(" {:>9}", "-");
    out += row.ratio > 0 ? fmt::format(" {:>6.3f} {:>6.3f}-{:<6.3f}", row.ratio, row.ratio_low, row.ratio_high)
                         : fmt::format(" {:>6} {:>13}", "-", "-");
    out +=
        row.fraction_of_peak ? fmt::format(" {:>6.1f}%\n", 100 * *row.fraction_of_peak) : fmt::format(" {:>7}\n", "-");
  }
  out += fmt::format("\nGFLOP/s, median of {} rounds, {} thread{}; ratio: the best other library's time over ridge's\n",
                     contest.rounds, contest.threads, contest.threads == 1 ? "" : "s");
  out += fmt::format("of peak: {}\n", contest.machine_title);
  for (const auto& c : contest.classes())
    out += fmt::format("{:<16} {:>3} rows   geometric mean {:.3f}   worst {:.3f}\n", c.name, c.rows, c.geometric_mean,
                       c.worst);
  for (const std::string& library : contest.libraries) out += "library: " + library + "\n";
  for (const std::string& variable : contest.removed_environment)
    out += "removed from the environment: " + variable + "\n";
  return out;
}

std::string contest_json(const Contest& contest) {
  nlohmann::ordered_json out{{"schema", "ridge.contest/1"},
                             {"version", version()},
                             {"commit", commit()},
                             {"machine", contest.machine},
                             {"machine_title", contest.machine_title},
                             {"threads", contest.threads},
                             {"rounds", contest.rounds},
                             {"libraries", contest.libraries},
                             {"removed_environment", contest.removed_environment}};
  for (const auto& row : contest.rows) {
    const auto& s = row.shape;
    nlohmann::ordered_json r{{"op", s.op},
                             {"dtype", s.dtypes()},
                             {"out", name(s.out)},
                             {"m", s.m},
                             {"n", s.n},
                             {"k", s.k},
                             {"best", row.best},
                             {"ratio", row.ratio},
                             {"ratio_low", row.ratio_low},
                             {"ratio_high", row.ratio_high}};
    r["fraction_of_peak"] =
        row.fraction_of_peak ? nlohmann::ordered_json(*row.fraction_of_peak) : nlohmann::ordered_json(nullptr);
    for (const auto& t : row.times)
      if (t.took_part)
        r["times"].push_back({{"library", t.library},
                              {"median_s", t.time.median},
                              {"min_s", t.time.min},
                              {"max_s", t.time.max},
                              {"max_error", t.max_error}});
    out["rows"].push_back(r);
  }
  for (const auto& c : contest.classes())
    out["classes"].push_back(
        {{"name", c.name}, {"rows", c.rows}, {"geometric_mean", c.geometric_mean}, {"worst", c.worst}});
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
