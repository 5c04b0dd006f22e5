#include "ridge/report/contest/stream_contest.h"

#include <fmt/format.h>

#include "ridge/base/version.h"

namespace ridge {

std::string stream_text(const StreamContest& contest) {
  std::string out =
      fmt::format("{:<15} {:<5} {:>7} {:>6} {:>7} {:>7} {:>6} {:>12} {:>8} {:>5} {:>6} {:>6} {:>6} {:>8} {:>5}\n",
                  "kernel", "dtype", "columns", "ridge", "stream", "cached", "ratio", "rounds", "of roof", "bar",
                  "in L1", "arith", "moves", "in cache", "bar");
  for (const auto& row : contest.rows) {
    const auto rate = [&](double seconds) { return row.bytes / seconds / 1e9; };
    out += fmt::format(
        "{:<15} {:<5} {:>7} {:>6.1f} {:>7.1f} {:>7.1f} {:>6.3f} {:>6.3f}-{:.3f} {:>8.3f} {:>5.2f} {:>6.1f} {:>6.1f} "
        "{:>6.1f} {:>8.3f} {:>5.2f}\n",
        name(row.what.kernel), name(row.what.dtype), row.what.columns == 0 ? "-" : std::to_string(row.what.columns),
        rate(row.ours.median), rate(row.stream.median), rate(row.cached_s), row.ratio, row.low, row.high, row.of_roof,
        row.what.bar(), rate(row.l1_s), rate(row.arithmetic_s), rate(row.moves_s), row.in_cache, in_cache_bar);
  }
  out += fmt::format(
      "\nGB/s read and written, median of {} rounds, {} thread{}, arrays of {} MiB; stream: the same arrays read and "
      "written without arithmetic;\ncached: ridge with arrays in the L2; ratio: ridge over stream; of roof: "
      "ridge over the lower of stream and cached;\nin L1: ridge with a row or 8 KiB in the L1; arith: "
      "its instructions alone, on the same cache lines;\nmoves: its loads and stores alone, in the faster of L2 and "
      "L1; in cache: the higher of cached and in L1 over the lower of arith and moves\n",
      contest.rounds, contest.threads, contest.threads == 1 ? "" : "s", contest.array_bytes >> 20);
  return out;
}

nlohmann::ordered_json stream_json(const StreamContest& contest) {
  nlohmann::ordered_json out{{"schema", "ridge.stream/2"}, {"version", version()},
                             {"commit", commit()},         {"threads", contest.threads},
                             {"rounds", contest.rounds},   {"array_bytes", contest.array_bytes}};
  const auto times = [](const Statistics& s) {
    return nlohmann::ordered_json{{"median_s", s.median}, {"min_s", s.min}, {"max_s", s.max}};
  };
  for (const auto& row : contest.rows)
    out["rows"].push_back({{"kernel", name(row.what.kernel)},
                           {"dtype", name(row.what.dtype)},
                           {"columns", row.what.columns},
                           {"bytes", row.bytes},
                           {"ridge", times(row.ours)},
                           {"stream", times(row.stream)},
                           {"cached_s", row.cached_s},
                           {"l1_s", row.l1_s},
                           {"arithmetic_s", row.arithmetic_s},
                           {"moves_s", row.moves_s},
                           {"in_cache", row.in_cache},
                           {"in_cache_bar", in_cache_bar},
                           {"ratio", row.ratio},
                           {"ratio_low", row.low},
                           {"ratio_high", row.high},
                           {"of_roof", row.of_roof},
                           {"bar", row.what.bar()},
                           {"max_error", row.error},
                           {"allowed_error", row.allowed}});
  return out;
}

}  // namespace ridge
