// ridge calibrate: fits a library's parameters on a machine to timings, or this CPU's parameters to a benchmark run.
#include <memory>

#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

struct CalibrateArgs {
  std::string on, dtype;
  api::CalibrationRequest request;
  OutputFormat format;
};

int run_calibrate(CalibrateArgs& args) {
  args.request.on = args.on;
  if (!args.dtype.empty()) {
    const auto dtype = parse_dtype_argument(args.dtype);
    if (!dtype) return print_error(dtype.error());
    args.request.dtype = *dtype;
  }
  if (const auto bar = progress_bar(); bar && args.request.path.empty()) args.request.progress = bar;
  const auto found = api::calibrate(args.request);
  end_progress();
  return found ? print_result(args.format, render_text(*found), render_json(*found), "") : print_error(found.error());
}

}  // namespace

void add_calibrate(CLI::App& app, int& code) {
  auto args = std::make_shared<CalibrateArgs>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "Fit a library's parameters on a machine to timings, or this CPU's to a run");
  verb->footer(
      "Examples:\n"
      "  ridge calibrate --on cpu\n"
      "  ridge calibrate timings.csv --on h200\n"
      "  ridge calibrate timings.csv --on a100_80 --column a100_us --out my_a100.toml\n"
      "  ridge explain examples/mlp.ridge --on my_a100.toml --plan --library cublaslt\n");
  verb->add_option(
      "FILE", args->request.path,
      "CSV with a time and the columns m, n, k; or batch, heads, key_heads, rows (or keys), width; or rows, "
      "row_bytes; and optionally dtype and batch. Without FILE, this CPU is timed");
  verb->add_option("--on", args->on, "Machine: a catalog name or a .toml file")->type_name("MACHINE")->required();
  verb->add_option("--dtype", args->dtype, "Dtype of the lines to use (default bf16, which includes f16)")
      ->type_name("DTYPE");
  verb->add_option("--column", args->request.column, "Column of times: NAME_s in seconds, other names in microseconds")
      ->type_name("NAME");
  verb->add_option("--source", args->request.source, "Provenance of the timings (default: the file name)")
      ->type_name("TEXT");
  verb->add_option("--out", args->request.out, "Write the machine with the fitted parameters into this file")
      ->type_name("FILE.toml");
  verb->add_option("--points", args->request.points, "Write the held-out kernels with measured and predicted times")
      ->type_name("FILE.csv");
  add_format_options(*verb, args->format, "ridge.calibration/1");
  verb->callback([args, &code] { code = run_calibrate(*args); });
}

}  // namespace ridge::cli
