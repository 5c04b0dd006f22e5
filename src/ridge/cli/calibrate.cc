// ridge calibrate: the numbers of a library on a machine, fitted to timings; and those of this CPU, to a run.
#include <memory>

#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"

namespace ridge::cli {
namespace {

struct Asked {
  std::string on, dtype;
  api::CalibrationRequest request;
  OutputForm form;
};

int perform(Asked& asked) {
  asked.request.on = asked.on;
  if (!asked.dtype.empty()) {
    const auto dtype = dtype_named(asked.dtype);
    if (!dtype) return fail(dtype.error());
    asked.request.dtype = *dtype;
  }
  if (const auto bar = progress_bar(); bar && asked.request.path.empty()) asked.request.progress = bar;
  const auto found = api::calibrate(asked.request);
  end_progress();
  return found ? print(asked.form, render_text(*found), render_json(*found), "") : fail(found.error());
}

}  // namespace

void add_calibrate(CLI::App& app, int& code) {
  auto asked = std::make_shared<Asked>();
  CLI::App* verb = app.add_subcommand(
      "calibrate", "Fit the numbers of a library's kernels on a machine to timings, or this CPU's to a run");
  verb->footer(
      "Examples:\n"
      "  ridge calibrate --on cpu\n"
      "  ridge calibrate timings.csv --on h200\n"
      "  ridge calibrate timings.csv --on a100_80 --column a100_us --out my_a100.toml\n"
      "  ridge explain examples/mlp.ridge --on my_a100.toml --plan --library cublaslt\n");
  verb->add_option("FILE", asked->request.path,
                   "CSV with a time and the columns m, n, k; batch, heads, key_heads, rows (or keys), width; or rows, "
                   "row_bytes; and optionally dtype and batch. Without it this CPU is timed");
  verb->add_option("--on", asked->on, "Machine: a catalog name or a .toml file")->type_name("MACHINE")->required();
  verb->add_option("--dtype", asked->dtype, "Which lines are meant (default bf16, which f16 goes with)")
      ->type_name("DTYPE");
  verb->add_option("--column", asked->request.column, "The column of times: NAME_s in seconds, others in microseconds")
      ->type_name("NAME");
  verb->add_option("--source", asked->request.source, "Who measured them, for the provenance (default: the file)")
      ->type_name("TEXT");
  verb->add_option("--out", asked->request.out, "Write the machine with these numbers into this file")
      ->type_name("FILE.toml");
  verb->add_option("--points", asked->request.points, "Write the kernels kept apart, measured and predicted")
      ->type_name("FILE.csv");
  add_form(*verb, asked->form, "ridge.calibration/1");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
