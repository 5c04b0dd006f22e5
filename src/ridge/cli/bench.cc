// ridge bench: matrix products compared with libraries, memory-bound kernels with the memory bandwidth, and one fused
// kernel with many; each benchmark measures its competitors in the same run.
#include <fmt/format.h>

#include <algorithm>
#include "ridge/base/contains.h"
#include "ridge/base/file.h"
#include "ridge/bench/bench.h"
#include "ridge/bench/cpu_benchmark_report.h"
#include "ridge/bench/device_benchmark_report.h"
#include "ridge/bench/device_stream_report.h"
#include "ridge/bench/repeats_report.h"
#include "ridge/bench/stream_benchmark_report.h"
#include "ridge/bench/time_plans.h"
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

int run_stream(const BenchArgs& args) {
  StreamOptions options{.threads = args.options.threads, .only_kernel = args.only};
  if (args.rounds > 0) options.rounds = args.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t total) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} kernels", done, total));
  };
  const auto result = run_stream_benchmark(options);
  end_progress();
  if (!result) return print_error(result.error());
  return print_result(args.format, format_stream_benchmark(*result, text_style()),
                      stream_benchmark_json(*result).dump(1) + "\n", "rows");
}

int run_device_stream(const BenchArgs& args) {
  DeviceStreamOptions options{.only_kernel = args.only};
  if (args.rounds > 0) options.rounds = args.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t total) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} kernels", done, total));
  };
  const auto result = run_device_stream_benchmark(options);
  end_progress();
  if (!result) return print_error(result.error());
  return print_result(args.format, format_device_stream(*result, text_style()),
                      device_stream_json(*result).dump(1) + "\n", "rows");
}

int run_repeats(const BenchArgs& args) {
  RepeatsOptions options = args.repeats;
  options.cuda = run_target_of(args.on) == RunTarget::cuda;
  options.threads = args.options.threads;
  if (args.rounds > 0) options.rounds = args.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t total) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} repeats", done, total));
  };
  const auto figure = run_repeats_benchmark(options);
  end_progress();
  if (!figure) return print_error(figure.error());
  if (!args.svg.empty())
    if (const Status written = write_file(args.svg, repeats_svg(*figure)); !written)
      return print_error(written.error());
  return print_result(args.format, format_repeats(*figure, text_style()), repeats_json(*figure).dump(1) + "\n", "rows");
}

int run_device(const BenchArgs& args) {
  if (args.options.libraries.size() > 1)
    return print_error(
        usage_error("expected only cublaslt after --against: it runs on a CUDA device, the others on this CPU"));
  DeviceBenchmarkOptions options{.tuned_candidates = args.tune};
  if (args.rounds > 0) options.rounds = args.rounds;
  options.progress = args.options.progress;
  const auto result = bench_device_matmul(args.shapes, options);
  end_progress();
  if (!result) return print_error(result.error());
  const int code =
      print_result(args.format, format_device_benchmark(*result, text_style()), device_benchmark_json(*result), "rows");
  const auto wrong_row =
      std::find_if(result->rows.begin(), result->rows.end(), [](const auto& row) { return !row.is_correct; });
  if (code != 0 || wrong_row == result->rows.end()) return code;
  return print_error({.kind = ErrorKind::mismatch,
                      .message = fmt::format("ridge computes wrong results for {}", wrong_row->shape.text())});
}

// Writes CSV line by line, so that an interrupted run keeps its timings.
int run_plans(const BenchArgs& args) {
  if (args.shapes.empty() || args.format.json || run_target_of(args.on) != RunTarget::cuda)
    return print_error(usage_error("expected plans with --on cuda and --shapes and without --json: it writes CSV",
                                   "ridge bench plans --on cuda --shapes FILE.csv > timings.csv"));
  const auto shapes = read_shapes(args.shapes, BenchmarkTarget::device);
  if (!shapes) return print_error(shapes.error());
  const auto device = describe_timed_device();
  if (!device) return print_error(device.error());
  const auto write = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  write(format_timings_header(*device));
  TimePlansOptions options = args.plans;
  options.on_timed = [&, bar = progress_bar()](const TimedProduct& product, std::size_t done, std::size_t total) {
    write(format_timings_line(product));
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} shapes", done, total));
  };
  const Status timed = time_plans(*shapes, options);
  end_progress();
  return timed ? 0 : print_error(timed.error());
}

// Returns the options of each benchmark.
std::string_view supported_options(const std::string& what) {
  if (what == "plans") return "--shapes --on --seconds --plans --skip";
  if (what == "repeats") return "--on --threads --rounds --most --elements --svg --json --csv --md";
  if (what == "stream") return "--on --threads --rounds --only --json --csv --md";
  return "--against --shapes --threads --rounds --tune --json --csv --md";
}

}  // namespace

int run_bench(BenchArgs& args) {
  if (const Status valid = check_combined_options(*args.verb, args.what, supported_options(args.what)); !valid)
    return print_error(valid.error());
  if (args.what == "plans") return run_plans(args);
  if (args.what == "repeats") return run_repeats(args);
  if (args.what == "stream")
    return run_target_of(args.on) == RunTarget::cuda ? run_device_stream(args) : run_stream(args);
  if (args.rounds > 0) args.options.rounds = args.rounds;
  args.options.progress = [bar = progress_bar()](std::size_t done, std::size_t total) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {} shapes", done, total));
  };
  const std::vector<std::string>& libraries = args.options.libraries;
  if (contains(libraries, "cublaslt")) return run_device(args);
  const auto result = bench_matmul(args.shapes, args.options);
  end_progress();
  if (!result) return print_error(result.error());
  return print_result(args.format, format_cpu_benchmark(*result, text_style()), cpu_benchmark_json(*result), "rows");
}

}  // namespace ridge::cli
