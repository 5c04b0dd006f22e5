#include "ridge/bench/stream_benchmark_report.h"

#include <fmt/format.h>

#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_stream_benchmark(const StreamBenchmark& benchmark, const TextStyle& style) {
  Cells rows{{"kernel         ", "dtype", "columns", " ridge", " stream", " cached", " ratio", "      rounds",
              " of roof", "  bar", " in L1", " arith", " moves", "in cache", "  bar"}};
  for (const auto& row : benchmark.rows) {
    const auto rate = [&](double seconds) { return row.bytes / seconds / 1e9; };
    rows.push_back({std::string(kernel_name(row.stream_case.kernel)), std::string(dtype_name(row.stream_case.dtype)),
                    row.stream_case.columns == 0 ? "-" : std::to_string(row.stream_case.columns)});
    for (const double seconds : {row.ridge_time.median, row.stream_time.median, row.l2_s})
      rows.back().push_back(fmt::format("{:.1f}", rate(seconds)));
    rows.back().insert(
        rows.back().end(),
        {fmt::format("{:.3f}", row.ratio), fmt::format("{:.3f}-{:.3f}", row.ratio_low, row.ratio_high),
         fmt::format("{:.3f}", row.fraction_of_roof), fmt::format("{:.2f}", row.stream_case.min_allowed_ratio())});
    for (const double seconds : {row.l1_s, row.arithmetic_s, row.load_store_s})
      rows.back().push_back(fmt::format("{:.1f}", rate(seconds)));
    rows.back().push_back(fmt::format("{:.3f}", row.in_cache_ratio));
    rows.back().push_back(fmt::format("{:.2f}", min_in_cache_ratio));
  }
  std::vector<bool> right(rows.front().size(), true);
  right[0] = right[1] = false;
  std::string out = text_table(rows,
                               {.right = right,
                                .omit_first = {"in L1", "arith", "moves", "in cache", "bar", "cached", "rounds"},
                                .separator = " "},
                               style);
  out += fmt::format(
      "\nGB/s read and written, median of {} rounds, {} thread{}, arrays of {} MiB; stream: the same arrays read and "
      "written without arithmetic;\ncached: ridge with arrays in the L2; ratio: ridge over stream; of roof: "
      "ridge over the lower of stream and cached;\nin L1: ridge with a row or 8 KiB in the L1; arith: "
      "its instructions alone, on the same cache lines;\nmoves: its loads and stores alone, in the faster of L2 and "
      "L1; in cache: the higher of cached and in L1 over the lower of arith and moves\n",
      benchmark.rounds, benchmark.threads, benchmark.threads == 1 ? "" : "s", benchmark.array_bytes >> 20);
  return out;
}

nlohmann::ordered_json stream_benchmark_json(const StreamBenchmark& benchmark) {
  nlohmann::ordered_json out{{"schema", "ridge.stream/2"}, {"version", version()},
                             {"commit", commit()},         {"threads", benchmark.threads},
                             {"rounds", benchmark.rounds}, {"array_bytes", benchmark.array_bytes}};
  const auto times = [](const Statistics& s) {
    return nlohmann::ordered_json{{"median_s", s.median}, {"min_s", s.min}, {"max_s", s.max}};
  };
  for (const auto& row : benchmark.rows)
    out["rows"].push_back({{"kernel", kernel_name(row.stream_case.kernel)},
                           {"dtype", dtype_name(row.stream_case.dtype)},
                           {"columns", row.stream_case.columns},
                           {"bytes", row.bytes},
                           {"ridge", times(row.ridge_time)},
                           {"stream", times(row.stream_time)},
                           {"cached_s", row.l2_s},
                           {"l1_s", row.l1_s},
                           {"arithmetic_s", row.arithmetic_s},
                           {"moves_s", row.load_store_s},
                           {"in_cache", row.in_cache_ratio},
                           {"in_cache_bar", min_in_cache_ratio},
                           {"ratio", row.ratio},
                           {"ratio_low", row.ratio_low},
                           {"ratio_high", row.ratio_high},
                           {"of_roof", row.fraction_of_roof},
                           {"bar", row.stream_case.min_allowed_ratio()},
                           {"max_error", row.error},
                           {"allowed_error", row.allowed_error}});
  return out;
}

}  // namespace ridge
