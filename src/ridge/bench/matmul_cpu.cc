// Each library runs in a process of its own. The parent lets them take turns on the same shape and data. Each result is
// checked against an fp64 sum before and after the timing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/bench/bench.h"
#include "ridge/bench/library_process.h"
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
  return static_cast<double>(s.size.k + 8) * 0x1p-24 + rounding;
}

Status check_results_of(std::vector<LibraryProcess>& processes, const BenchmarkShape& shape, ComparisonRow& row) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    Competitor& competitor = row.competitors[i];
    if (!competitor.is_supported) continue;
    RIDGE_TRY(answer, processes[i].check_result());
    competitor.max_error = std::max(competitor.max_error.value_or(0), answer.max_error);
    if (!(answer.max_error <= allowed_error(shape)))
      return Error{.kind = ErrorKind::mismatch,
                   .message = fmt::format("{} is wrong at {}: error {:.3g} of |A||B|, expected at most {:.3g}",
                                          competitor.name, shape.text(), answer.max_error, allowed_error(shape))};
  }
  return Done{};
}

Result<ComparisonRow> compare_product(std::vector<LibraryProcess>& processes, const BenchmarkShape& shape,
                                      const Machine& machine, int threads, int rounds) {
  ComparisonRow row{.labels = shape_labels(shape)};
  std::vector<int> calls;  // calls of each library per turn
  for (LibraryProcess& process : processes) {
    RIDGE_TRY(answer, process.prepare_product(shape));
    row.competitors.push_back({.name = process.library_name(), .flops = shape.flops()});
    row.competitors.back().is_supported = answer.supported;
    calls.push_back(static_cast<int>(std::clamp(std::ceil(turn_seconds / std::max(answer.seconds, 1e-9)), 1.0, 1e6)));
  }
  RIDGE_TRY_STATUS(check_results_of(processes, shape, row));
  const auto time_call = [&](std::size_t i) -> Result<double> {
    if (threads > 1) std::this_thread::sleep_for(idle_wait);
    RIDGE_TRY(answer, processes[i].run_calls(calls[i]));
    return answer.seconds / calls[i];
  };
  RIDGE_TRY_STATUS(time_in_turns(row.competitors, rounds, time_call));
  RIDGE_TRY_STATUS(check_results_of(processes, shape, row));
  set_ratio(row, find_fastest_other(row));
  row.numbers["fraction_of_peak"] = nullptr;
  if (const auto peak = machine.contraction_peak(shape.dtype); peak && row.competitors[0].is_supported)
    row.numbers["fraction_of_peak"] = shape.flops() / row.competitors[0].time().median / (*peak)->rate.value;
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
      return usage_error(fmt::format("unknown library '{}'; expected openblas, mkl, onednn or torch", library),
                         suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion));
    }
    if (contains(seen, library))
      return usage_error(fmt::format("expected each library once, found '{}' twice", library));
    seen.push_back(library);
  }
  return Done{};
}

}  // namespace

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

Result<Comparison> compare_cpu_products(const std::vector<BenchmarkShape>& shapes, const Machine& machine,
                                        const BenchOptions& options) {
  RIDGE_TRY_STATUS(check_libraries(options.libraries));
  if (const auto available = available_bytes())
    RIDGE_TRY_STATUS(check_benchmark_memory(shapes, options.libraries.size() + 1, *available));
  Comparison out = start_comparison("matmul", options, 7);
  set_cpu_product_columns(out, shapes);
  out.device = machine.title;
  out.threads = options.threads;
  const std::vector<std::string> removed = remove_library_variables();
  std::vector<std::string> names{"ridge"};
  names.insert(names.end(), options.libraries.begin(), options.libraries.end());
  std::vector<LibraryProcess> processes;
  for (const std::string& library : names) {
    RIDGE_TRY(started, LibraryProcess::start(library, options.threads));
    processes.push_back(std::move(started));
  }
  RIDGE_TRY_STATUS(time_rows(out, shapes, options, [&](const BenchmarkShape& shape) {
    return compare_product(processes, shape, machine, options.threads, out.rounds);
  }));
  std::vector<std::string> libraries;
  for (LibraryProcess& process : processes) {
    RIDGE_TRY(about, process.describe());
    libraries.emplace_back(about.description);
    out.notes.push_back("library: " + libraries.back());
  }
  for (const std::string& variable : removed) out.notes.push_back("removed from the environment: " + variable);
  out.settings = {{"machine", machine.name}, {"libraries", libraries}, {"removed_environment", removed}};
  return out;
}

}  // namespace ridge
