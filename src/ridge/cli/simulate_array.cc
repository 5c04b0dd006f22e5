// ridge simulate systolic, ridge simulate weights: arrays of processing elements.
#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct Systolic {
  SystolicRequest request;
  std::optional<std::int64_t> m, n, k;
  std::string table;
  Pictures pictures;
  OutputForm form;
};

int perform(Systolic& asked) {
  const int given = asked.m.has_value() + asked.n.has_value() + asked.k.has_value();
  if (given != 0 && given != 3)
    return fail(
        usage_error(fmt::format("expected M N K, found {} of them", given), "A [M, K] times B [K, N] gives C [M, N]"));
  if (given == 3) asked.request.product = ProductSize{*asked.m, *asked.n, *asked.k};
  const auto runs = api::simulate(asked.request, asked.table);
  if (!runs) return fail(runs.error());
  if (asked.pictures.asked()) {
    if (runs->size() != 1)
      return fail(usage_error(fmt::format("expected one product to draw, found {}", runs->size()), "give M N K"));
    const SystolicRun& run = runs->front();
    const Status drawn = draw(
        asked.pictures, [&] { return render_svg(run); }, first_folds(run.task.array, run.task.product, 1024),
        title_of(run));
    if (!drawn) return fail(drawn.error());
  }
  if (asked.table.empty()) return print(asked.form, render_text(*runs), render_json(*runs), "");
  std::string lines;
  for (const SystolicRun& run : *runs) lines += render_json(run, true);
  return print(asked.form, lines, lines, "");
}

}  // namespace

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
  add_form(*verb, asked->form, "ridge.simulate/1");
  add_pictures(*verb, asked->pictures, "folds and, of a small array, every element at every cycle");
  verb->callback([asked, &code] { code = perform(*asked); });
}

void add_weights(CLI::App& simulate, int& code) {
  struct Weights {
    Pictures pictures;
    OutputForm form;
  };
  auto asked = std::make_shared<Weights>();
  CLI::App* verb = simulate.add_subcommand("weights", "TPU v1's weight path beside the paper's counters");
  verb->footer("Examples:\n  ridge simulate weights\n  ridge simulate weights --svg weights.svg\n");
  add_form(*verb, asked->form, "ridge.simulate/1");
  add_pictures(*verb, asked->pictures, "eight weight tiles of MLP0, on the clock");
  verb->callback([asked, &code] {
    const auto rows = tpu_v1_applications();
    const std::string title = "TPU v1, MLP0: 200 rows through each of eight weight tiles";
    const auto clock = clock_weights({256, 256, Dataflow::weight_stationary}, {rows.front().batch, 256, 8 * 256}, {});
    if (!clock) {
      code = fail(clock.error());
      return;
    }
    const Timeline& timeline = clock->timeline;
    const Status drawn = draw(
        asked->pictures, [&] { return timeline_svg(timeline, title); }, timeline, title);
    code = !drawn ? fail(drawn.error()) : print(asked->form, text(rows), render_tpu_v1_json(rows), "rows");
  });
}

}  // namespace ridge::cli
