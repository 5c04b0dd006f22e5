// ridge bench: matrix products compared with libraries, memory-bound kernels with the memory bandwidth, and one fused
// kernel with many; each benchmark measures its competitors in the same run.
#include <fmt/format.h>

#include "ridge/base/file.h"
#include "ridge/bench/bench.h"
#include "ridge/bench/plan_timings.h"
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

// Returns a function that shows "3 of 60 shapes", if stderr is a terminal.
std::function<void(std::size_t done, std::size_t total)> count_progress(std::string_view noun) {
  return [noun, bar = progress_bar()](std::size_t done, std::size_t total) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} {}", done, total, noun));
  };
}

// Writes CSV line by line, so that an interrupted run keeps its timings.
Result<int> run_plans(const BenchArgs& args) {
  if (args.options.shapes.empty() || args.format.json || run_target_of(args.on) != RunTarget::cuda)
    return usage_error("expected plans with --on cuda and --shapes and without --json: it writes CSV",
                       "ridge bench plans --on cuda --shapes FILE.csv > timings.csv");
  RIDGE_TRY(shapes, read_shapes(args.options.shapes, BenchmarkTarget::device));
  RIDGE_TRY(device, describe_timed_device());
  const auto write = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  write(format_timings_header(device));
  TimePlansOptions options = args.plans;
  options.on_timed = [&, show = count_progress("shapes")](const TimedProduct& product, std::size_t done,
                                                          std::size_t total) {
    write(format_timings_line(product));
    show(done, total);
  };
  const Status timed = time_plans(shapes, options);
  end_progress();
  if (!timed) return timed.error();
  return 0;
}

struct Benchmark {
  std::string_view name, rows;  // For the progress bar
  std::string_view supported_options;
};
constexpr Benchmark benchmarks[] = {
    {"matmul", "shapes", "--against --shapes --threads --rounds --tune --json --csv --md"},
    {"stream", "kernels", "--on --threads --rounds --only --json --csv --md"},
    {"repeats", "repeats", "--on --threads --rounds --most --elements --svg --json --csv --md"},
    {"plans", "shapes", "--shapes --on --seconds --plans --skip"}};

}  // namespace

Result<int> run_bench(BenchArgs& args) {
  const Benchmark& benchmark = *std::find_if(std::begin(benchmarks), std::end(benchmarks),
                                             [&](const Benchmark& b) { return b.name == args.what; });
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, args.what, benchmark.supported_options));
  if (args.what == "plans") return run_plans(args);
  args.options.cuda = run_target_of(args.on) == RunTarget::cuda;
  args.options.progress = count_progress(benchmark.rows);
  const auto result = run_benchmark(args.what, args.options);
  end_progress();
  if (!result) return result.error();
  RIDGE_TRY_STATUS(write_if_requested(args.svg, [&] { return repeats_svg(*result); }));
  if (const int code =
          print_result(args.format, format_comparison(*result, text_style()), comparison_json(*result), "rows"))
    return code;
  RIDGE_TRY_STATUS(check_results(*result));
  return 0;
}

}  // namespace ridge::cli
