// Result of every `ridge bench`: rows of competitors that took turns in one run, so that a drop of the clock affects
// all of them. A row's ratio is the median over the rounds of another competitor's time over Ridge's; above 1, Ridge is
// faster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/clocks.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {

struct Competitor {
  std::string name;                      // "ridge", "openblas", "copy"
  std::vector<double> samples = {};      // Seconds of one call, one sample per round
  double flops = 0, bytes = 0;           // Work of one call; 0 if its rate is not reported
  std::optional<double> max_error = {};  // Largest error before and after the timing
  std::optional<Interval> predicted_s = {};
  bool is_supported = true;  // False if it cannot compute the row
  Statistics time() const { return compute_statistics(samples); }
};

struct ComparisonRow {
  Json labels = Json::object();              // First columns, such as op, dtype, m, n and k
  std::vector<Competitor> competitors = {};  // Ridge first
  std::string best = {};                     // Competitor of the ratio; empty if no other one supports the row
  Statistics ratio = {};                     // Its time over Ridge's in each round
  Json numbers = Json::object();             // Further numbers, such as the fraction of the peak; null if unknown
};

// Column of one of a row's `numbers`.
struct ComparisonColumn {
  enum class Format { decimals, percent, seconds, text, is_right };
  std::string key, header;  // The key of a nested number is its path: "plan/kernel"
  Format format = Format::decimals;
};

// Named rows that are summarized by geometric means.
struct RowClass {
  std::string name;
  std::function<bool(const Json& labels)> contains;
};

struct Comparison {
  // Columns of each competitor in the text table.
  enum class Measure { seconds, predicted_s, gflop_per_s, gb_per_s, flop_per_s, byte_per_s };

  std::string benchmark = {}, device = {}, day = {};  // "stream", "NVIDIA H200"
  int rounds = 0, threads = 0, driver = 0;            // `threads` on a CPU, `driver` on a device
  Json settings = Json::object();                     // Further members of the JSON, such as array_bytes
  std::vector<Measure> measures = {};
  std::vector<ComparisonColumn> columns = {};
  std::vector<RowClass> classes = {};
  std::string ratio_meaning = {};       // "the copy's time over ridge's"
  std::vector<std::string> notes = {};  // Lines below the table
  std::optional<DeviceClocks> clocks_before = {}, clocks_after = {};
  std::vector<ComparisonRow> rows = {};
};

// Calls time_call(i) for each supported competitor, alternately, until `seconds` have passed, at least once each.
Status warm_up(const std::vector<Competitor>& competitors, double seconds,
               const std::function<Result<double>(std::size_t)>& time_call);
// Appends time_call(i) to the samples of each supported competitor i. A different one starts each round.
Status time_round(std::vector<Competitor>& competitors, std::size_t round,
                  const std::function<Result<double>(std::size_t)>& time_call);
Status time_in_turns(std::vector<Competitor>& competitors, int rounds,
                     const std::function<Result<double>(std::size_t)>& time_call);

// Returns the statistics over the rounds of one competitor's time over another's.
Statistics ratio_of_rounds(const Competitor& theirs, const Competitor& ours);
// Sets the ratio of competitor `other` to Ridge; without one the row stays without a ratio.
void set_ratio(ComparisonRow& row, std::size_t other);
// Returns the fastest supported competitor after Ridge, or 0 if there is none.
std::size_t find_fastest_other(const ComparisonRow& row);

// Returns an error with exit code 1 for the first row with a wrong result.
Status check_results(const Comparison& comparison);

std::string format_comparison(const Comparison& comparison, const TextStyle& style = {});
// Returns JSON of schema "ridge.benchmark/1". Bytes that are not UTF-8 are replaced.
std::string comparison_json(const Comparison& comparison);

}  // namespace ridge
