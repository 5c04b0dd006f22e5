#include "ridge/report/contest.h"

#include <fmt/format.h>

#include "ridge/base/version.h"

namespace ridge {
namespace {

double flops(const measure::ContestShape& s) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

// What fraction of the machine's peak the first contestant, Ridge, reached; nothing where the peak is unknown.
std::optional<double> fraction_of_peak(const measure::ContestRow& row, const measure::Contest& contest,
                                       const Machine& machine) {
  const auto peak = machine.contraction_peak(row.shape.dtype);
  if (!peak || !row.times[0].took_part) return std::nullopt;
  const Peak& p = **peak;
  if (contest.threads == 1 && !p.one_core) return std::nullopt;
  return flops(row.shape) / row.times[0].median_s / (contest.threads == 1 ? p.one_core->value : p.rate.value);
}

}  // namespace

std::string contest_text(const measure::Contest& contest, const Machine& machine) {
  std::string out = fmt::format("{:<6} {:<5} {:>6} {:>6} {:>6}", "op", "dtype", "m", "n", "k");
  if (!contest.rows.empty())
    for (const auto& t : contest.rows[0].times) out += fmt::format(" {:>9}", t.library);
  out += fmt::format(" {:>6} {:>13} {:>7}\n", "ratio", "rounds", "of peak");
  for (const auto& row : contest.rows) {
    const auto& s = row.shape;
    out += fmt::format("{:<6} {:<5} {:>6} {:>6} {:>6}", s.op, name(s.dtype), s.m, s.n, s.k);
    for (const auto& t : row.times)
      out += t.took_part ? fmt::format(" {:>9.1f}", flops(s) / t.median_s / 1e9) : fmt::format(" {:>9}", "-");
    out += row.ratio > 0 ? fmt::format(" {:>6.3f} {:>6.3f}-{:<6.3f}", row.ratio, row.ratio_low, row.ratio_high)
                         : fmt::format(" {:>6} {:>13}", "-", "-");
    const auto fraction = fraction_of_peak(row, contest, machine);
    out += fraction ? fmt::format(" {:>6.1f}%\n", 100 * *fraction) : fmt::format(" {:>7}\n", "-");
  }
  out += fmt::format("\nGFLOP/s, median of {} rounds, {} thread{}; ratio: the best other library's time over ridge's\n",
                     contest.rounds, contest.threads, contest.threads == 1 ? "" : "s");
  for (const auto& c : contest.classes())
    out += fmt::format("{:<12} {:>3} rows   geometric mean {:.3f}   worst {:.3f}\n", c.name, c.rows, c.geometric_mean,
                       c.worst);
  for (const std::string& library : contest.libraries) out += "library: " + library + "\n";
  for (const std::string& variable : contest.removed_environment)
    out += "removed from the environment: " + variable + "\n";
  return out;
}

nlohmann::ordered_json contest_json(const measure::Contest& contest, const Machine& machine) {
  nlohmann::ordered_json out{{"schema", "ridge.contest/1"},
                             {"version", version()},
                             {"commit", commit()},
                             {"machine", machine.name},
                             {"threads", contest.threads},
                             {"rounds", contest.rounds},
                             {"libraries", contest.libraries},
                             {"removed_environment", contest.removed_environment}};
  for (const auto& row : contest.rows) {
    const auto& s = row.shape;
    nlohmann::ordered_json r{{"op", s.op},
                             {"dtype", name(s.dtype)},
                             {"out", name(s.out)},
                             {"m", s.m},
                             {"n", s.n},
                             {"k", s.k},
                             {"best", row.best},
                             {"ratio", row.ratio},
                             {"ratio_low", row.ratio_low},
                             {"ratio_high", row.ratio_high}};
    const auto fraction = fraction_of_peak(row, contest, machine);
    r["fraction_of_peak"] = fraction ? nlohmann::ordered_json(*fraction) : nlohmann::ordered_json(nullptr);
    for (const auto& t : row.times)
      if (t.took_part)
        r["times"].push_back({{"library", t.library},
                              {"median_s", t.median_s},
                              {"min_s", t.min_s},
                              {"max_s", t.max_s},
                              {"max_error", t.max_error}});
    out["rows"].push_back(r);
  }
  for (const auto& c : contest.classes())
    out["classes"].push_back(
        {{"name", c.name}, {"rows", c.rows}, {"geometric_mean", c.geometric_mean}, {"worst", c.worst}});
  return out;
}

}  // namespace ridge
