#include "ridge/bench/cpu_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/bench/competitor.h"
#include "ridge/bench/matmul_library.h"
#include "ridge/run/memory.h"

namespace ridge {
namespace {

constexpr double turn_seconds = 0.02;  // time that one library computes per turn, at least one call
// Pause before timing a library, until another library's idle threads sleep: OpenBLAS' spin for 2^26 cycles.
constexpr auto idle_wait = std::chrono::milliseconds(40);

// Bound for sums of k terms in f32 plus one rounding to the output's format; integer sums are exact.
double allowed_error(const BenchmarkShape& s) {
  if (s.out == DType::int32) return 0;
  double rounding = 0x1p-24;
  if (s.out == DType::bf16) rounding = 0x1p-8;
  if (s.out == DType::f16) rounding = 0x1p-11;
  return static_cast<double>(s.k + 8) * 0x1p-24 + rounding;
}

Status check_competitor(Competitor& competitor, const BenchmarkShape& shape, LibraryTime& time) {
  RIDGE_TRY(answer, competitor.check_result());
  time.max_error = std::max(time.max_error, answer.max_error);
  if (!(answer.max_error <= allowed_error(shape)))
    return Error{
        .kind = ErrorKind::mismatch,
        .message = fmt::format("{} is wrong at {}: error {:.3g} of |A||B|, expected at most {:.3g}",
                               competitor.library_name(), shape.text(), answer.max_error, allowed_error(shape))};
  return Done{};
}

// Compares ridge with the fastest other library: ratio of the medians, and its range over the rounds.
void compare_with_fastest(CpuBenchmarkRow& row, const std::vector<std::vector<double>>& rounds) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < row.times.size(); ++i)
    if (row.times[i].supported && (best == 0 || row.times[i].time.median < row.times[best].time.median)) best = i;
  if (best == 0 || !row.times[0].supported) return;
  row.best_library = row.times[best].library;
  row.ratio = row.times[best].time.median / row.times[0].time.median;
  std::vector<double> pairs;
  for (std::size_t r = 0; r < rounds[0].size(); ++r) pairs.push_back(rounds[best][r] / rounds[0][r]);
  const Statistics spread = compute_statistics(pairs);
  row.ratio_low = spread.min;
  row.ratio_high = spread.max;
}

Result<CpuBenchmarkRow> benchmark_product(std::vector<Competitor>& competitors, const BenchmarkShape& shape,
                                          const CpuBenchmarkOptions& options) {
  CpuBenchmarkRow row{.shape = shape};
  std::vector<std::vector<double>> rounds(competitors.size());
  std::vector<int> calls;  // calls of each library per turn
  for (Competitor& competitor : competitors) {
    row.times.emplace_back().library = competitor.library_name();
    RIDGE_TRY(answer, competitor.prepare_product(shape));
    row.times.back().supported = answer.supported;
    calls.push_back(static_cast<int>(std::clamp(std::ceil(turn_seconds / std::max(answer.seconds, 1e-9)), 1.0, 1e6)));
    if (!answer.supported) continue;
    RIDGE_TRY_STATUS(check_competitor(competitor, shape, row.times.back()));
  }
  for (int r = 0; r < options.rounds; ++r)
    for (std::size_t i = 0; i < competitors.size(); ++i) {
      const std::size_t index =
          (i + static_cast<std::size_t>(r)) % competitors.size();  // a different library starts each round
      if (!row.times[index].supported) continue;
      if (options.threads > 1) std::this_thread::sleep_for(idle_wait);
      RIDGE_TRY(answer, competitors[index].run_calls(calls[index]));
      rounds[index].push_back(answer.seconds / calls[index]);
    }
  for (std::size_t i = 0; i < competitors.size(); ++i) {
    LibraryTime& t = row.times[i];
    if (!t.supported) continue;
    t.time = compute_statistics(rounds[i]);
    t.flop_per_s = shape.flops() / t.time.median;
    RIDGE_TRY_STATUS(check_competitor(competitors[i], shape, t));
  }
  compare_with_fastest(row, rounds);
  return row;
}

Status check_libraries(const std::vector<std::string>& requested) {
  const std::vector<std::string> known = list_matmul_libraries();
  std::vector<std::string> seen{"ridge"};
  for (const std::string& library : requested) {
    if (library == "ridge")
      return usage_error("expected libraries to compare ridge with, found 'ridge' itself", "--against openblas,onednn");
    if (!contains(known, library)) {
      const std::string suggestion = find_nearest(library, known);
      return usage_error(fmt::format("unknown library '{}'; expected openblas, onednn or torch", library),
                         suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion));
    }
    if (contains(seen, library))
      return usage_error(fmt::format("expected each library once, found '{}' twice", library));
    seen.push_back(library);
  }
  return Done{};
}

}  // namespace

std::vector<CpuBenchmarkSummary> CpuBenchmark::summarize_shape_classes() const {
  std::vector<std::string> all_dtypes;
  for (const CpuBenchmarkRow& row : rows)
    if (!contains(all_dtypes, row.shape.dtypes())) all_dtypes.push_back(row.shape.dtypes());
  std::vector<CpuBenchmarkSummary> out;
  for (const std::string& class_dtypes : all_dtypes) {
    struct RowRange {
      const char* name;
      std::int64_t from, to;
    };
    for (const RowRange& g :
         {RowRange{"all", 1, INT64_MAX}, RowRange{"M > 8", 9, INT64_MAX}, RowRange{"M <= 8", 1, 8}}) {
      CpuBenchmarkSummary c{.name = fmt::format("{} {}", class_dtypes, g.name), .worst_ratio = INFINITY};
      double logs = 0;
      for (const CpuBenchmarkRow& row : rows) {
        if (row.shape.dtypes() != class_dtypes || row.shape.m < g.from || row.shape.m > g.to || row.ratio == 0)
          continue;
        ++c.rows;
        logs += std::log(row.ratio);
        c.worst_ratio = std::min(c.worst_ratio, row.ratio);
      }
      if (c.rows == 0) continue;
      c.geometric_mean = std::exp(logs / static_cast<double>(c.rows));
      out.push_back(c);
    }
  }
  return out;
}

Status check_benchmark_memory(const std::vector<BenchmarkShape>& shapes, std::size_t processes,
                              std::int64_t available) {
  for (const BenchmarkShape& shape : shapes) {
    const double bytes = shape.bytes() * static_cast<double>(processes);
    if (bytes <= static_cast<double>(available)) continue;
    return input_error(
        fmt::format("{} takes {} in {} processes; expected at most the {} that are available", shape.text(),
                    format_with_prefix(bytes, "B"), processes, format_with_prefix(static_cast<double>(available), "B")),
        "leave the shape out, or name fewer libraries after --against");
  }
  return Done{};
}

Result<CpuBenchmark> run_cpu_benchmark(const std::vector<BenchmarkShape>& shapes, const Machine& machine,
                                       const CpuBenchmarkOptions& options) {
  RIDGE_TRY_STATUS(check_libraries(options.libraries));
  if (const auto available = available_bytes())
    RIDGE_TRY_STATUS(check_benchmark_memory(shapes, options.libraries.size() + 1, *available));
  CpuBenchmark result{.threads = options.threads,
                      .rounds = options.rounds,
                      .machine = machine.name,
                      .machine_title = machine.title,
                      .removed_environment = remove_library_variables()};
  std::vector<std::string> names{"ridge"};
  names.insert(names.end(), options.libraries.begin(), options.libraries.end());
  std::vector<Competitor> competitors;
  for (const std::string& library : names) {
    RIDGE_TRY(started, Competitor::start(library, options.threads));
    competitors.push_back(std::move(started));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (options.progress) options.progress(i, shapes.size());
    RIDGE_TRY(row, benchmark_product(competitors, shapes[i], options));
    if (const auto peak = machine.contraction_peak(shapes[i].dtype); peak && row.times[0].supported)
      row.fraction_of_peak = row.times[0].flop_per_s / (*peak)->rate.value;
    result.rows.push_back(std::move(row));
  }
  if (options.progress) options.progress(shapes.size(), shapes.size());
  for (Competitor& competitor : competitors) {
    RIDGE_TRY(about, competitor.describe());
    result.libraries.emplace_back(about.description);
  }
  return result;
}

}  // namespace ridge
