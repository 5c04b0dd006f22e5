// ridge simulate systolic: a product on a systolic array.
#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"
#include "ridge/report/simulate.h"

namespace ridge::cli {
namespace {

struct Systolic {
  SystolicRequest request;
  std::optional<std::int64_t> m, n, k;
  std::string table, svg;
  bool json = false;
};

int perform(Systolic& asked) {
  const int given = asked.m.has_value() + asked.n.has_value() + asked.k.has_value();
  if (given != 0 && given != 3)
    return fail(
        usage_error(fmt::format("expected M N K, found {} of them", given), "A [M, K] times B [K, N] gives C [M, N]"));
  if (given == 3) asked.request.product = ProductSize{*asked.m, *asked.n, *asked.k};
  const auto runs = simulate(asked.request, asked.table);
  if (!runs) return fail(runs.error());
  if (!asked.svg.empty()) {
    if (runs->size() != 1)
      return fail(usage_error(fmt::format("expected one product to draw, found {}", runs->size()), "give M N K"));
    if (const Status written = write_file(asked.svg, render_svg(runs->front())); !written) return fail(written.error());
  }
  if (asked.table.empty()) return print(asked.json ? render_json(*runs) : render_text(*runs));
  std::string lines;
  for (const SystolicRun& run : *runs) lines += render_json(run, true);
  return print(lines);
}

void add_systolic(CLI::App& simulate, int& code) {
  auto asked = std::make_shared<Systolic>();
  CLI::App* verb = simulate.add_subcommand("systolic", "A matrix product on a systolic array, to the cycle");
  verb->footer(
      "Examples:\n"
      "  ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n"
      "  ridge simulate systolic --rows 4 --cols 4 --dataflow ws --preload 1 4 4 --svg array.svg\n"
      "  ridge simulate systolic --topology layers.csv --config array.cfg\n");
  SystolicRequest& r = asked->request;
  verb->add_option("M", asked->m, "Rows of A and C")->type_name("");
  verb->add_option("N", asked->n, "Columns of B and C")->type_name("");
  verb->add_option("K", asked->k, "Columns of A, rows of B")->type_name("");
  verb->add_option("--rows", r.rows, "Rows of elements")->type_name("R");
  verb->add_option("--cols", r.cols, "Columns of elements")->type_name("C");
  verb->add_option("--dataflow", r.dataflow, "What stays in place: os result, ws weights (default), is inputs")
      ->type_name("os|ws|is");
  verb->add_flag("--preload", r.preload, "The stationary operand is in place before a fold starts");
  verb->add_option("--bandwidth", r.bandwidth, "Words a cycle from memory, for all or for a,b,c: count the waits")
      ->type_name("W");
  verb->add_option("--sram", r.sram, "Words of SRAM, for all or for a,b,c (default 65536)")->type_name("W");
  verb->add_flag("--wait-once", r.wait_once, "Count a read's wait once, not twice as SCALE-Sim does");
  verb->add_option("--topology", r.topology, "SCALE-Sim's layers: a run each")->type_name("FILE.csv");
  verb->add_option("--config", r.config, "SCALE-Sim's configuration, instead of --rows, --cols and --dataflow")
      ->type_name("FILE.cfg");
  verb->add_option("--table", asked->table, "CSV with the columns M,N,K: one line of JSON for each row")
      ->type_name("FILE.csv");
  verb->add_flag("--json", asked->json, "Print JSON (ridge.report/1) instead of text; of several runs a line each");
  verb->add_option("--svg", asked->svg, "Draw folds and, for small arrays, every element into this file")
      ->type_name("FILE");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace

void add_simulate(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("simulate", "See why a machine is idle: fill, drain, folds, waits, calls");
  verb->footer("Examples:\n  ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n");
  verb->require_subcommand(1);
  add_systolic(*verb, code);
}

}  // namespace ridge::cli
