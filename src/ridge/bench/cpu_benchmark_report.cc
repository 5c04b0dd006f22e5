#include "ridge/bench/cpu_benchmark_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_cpu_benchmark(const CpuBenchmark& benchmark, const TextStyle& style) {
  std::size_t dtype_width = 5;
  for (const auto& row : benchmark.rows) dtype_width = std::max(dtype_width, row.shape.dtypes().size());
  const auto cell = [](std::string_view text, int width) { return fmt::format("{:>{}}", text, width); };
  Cells rows{{fmt::format("{:<6}", "op"), fmt::format("{:<{}}", "dtype", dtype_width), cell("m", 6), cell("n", 6),
              cell("k", 6)}};
  if (!benchmark.rows.empty())
    for (const auto& t : benchmark.rows[0].times) rows.front().push_back(cell(t.library, 9));
  rows.front().insert(rows.front().end(), {cell("ratio", 6), cell("rounds", 13), cell("of peak", 7)});
  for (const auto& row : benchmark.rows) {
    const auto& s = row.shape;
    rows.push_back({s.op, s.dtypes(), std::to_string(s.m), std::to_string(s.n), std::to_string(s.k)});
    for (const auto& t : row.times)
      rows.back().push_back(t.supported ? fmt::format("{:.1f}", t.flop_per_s / 1e9) : "-");
    const bool has_ratio = row.ratio > 0;
    rows.back().push_back(has_ratio ? fmt::format("{:.3f}", row.ratio) : "-");
    rows.back().push_back(has_ratio ? fmt::format("{:>6.3f}-{:<6.3f}", row.ratio_low, row.ratio_high) : "-");
    rows.back().push_back(row.fraction_of_peak ? fmt::format("{:.1f}%", 100 * *row.fraction_of_peak) : "-");
  }
  std::vector<bool> right(rows.front().size(), true);
  right[0] = right[1] = false;
  std::string out =
      text_table(rows, {.right = right, .omit_first = {"rounds", "of peak", "dtype", "op"}, .separator = " "}, style);
  out += fmt::format("\nGFLOP/s, median of {} rounds, {} thread{}; ratio: the best other library's time over ridge's\n",
                     benchmark.rounds, benchmark.threads, benchmark.threads == 1 ? "" : "s");
  out += fmt::format("of peak: {}\n", benchmark.machine_title);
  for (const auto& c : benchmark.summarize_shape_classes())
    out += fmt::format("{:<16} {:>3} rows   geometric mean {:.3f}   worst {:.3f}\n", c.name, c.rows, c.geometric_mean,
                       c.worst_ratio);
  for (const std::string& library : benchmark.libraries) out += "library: " + library + "\n";
  for (const std::string& variable : benchmark.removed_environment)
    out += "removed from the environment: " + variable + "\n";
  return out;
}

std::string cpu_benchmark_json(const CpuBenchmark& benchmark) {
  nlohmann::ordered_json out{{"schema", "ridge.contest/1"},
                             {"version", version()},
                             {"commit", commit()},
                             {"machine", benchmark.machine},
                             {"machine_title", benchmark.machine_title},
                             {"threads", benchmark.threads},
                             {"rounds", benchmark.rounds},
                             {"libraries", benchmark.libraries},
                             {"removed_environment", benchmark.removed_environment}};
  for (const auto& row : benchmark.rows) {
    const auto& s = row.shape;
    nlohmann::ordered_json r{{"op", s.op},
                             {"dtype", s.dtypes()},
                             {"out", dtype_name(s.out)},
                             {"m", s.m},
                             {"n", s.n},
                             {"k", s.k},
                             {"best", row.best_library},
                             {"ratio", row.ratio},
                             {"ratio_low", row.ratio_low},
                             {"ratio_high", row.ratio_high}};
    r["fraction_of_peak"] =
        row.fraction_of_peak ? nlohmann::ordered_json(*row.fraction_of_peak) : nlohmann::ordered_json(nullptr);
    for (const auto& t : row.times)
      if (t.supported)
        r["times"].push_back({{"library", t.library},
                              {"median_s", t.time.median},
                              {"min_s", t.time.min},
                              {"max_s", t.time.max},
                              {"max_error", t.max_error}});
    out["rows"].push_back(r);
  }
  for (const auto& c : benchmark.summarize_shape_classes())
    out["classes"].push_back(
        {{"name", c.name}, {"rows", c.rows}, {"geometric_mean", c.geometric_mean}, {"worst", c.worst_ratio}});
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
