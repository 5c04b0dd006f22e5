// ridge simulate: a product on a systolic array, the weight path of TPU v1, a program on a dataflow chip.
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

void add_weights(CLI::App& simulate, int& code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = simulate.add_subcommand("weights", "TPU v1's weight path beside the paper's counters");
  verb->footer("Examples:\n  ridge simulate weights\n");
  verb->add_flag("--json", *json, "Print JSON (ridge.report/1) instead of text");
  verb->callback([json, &code] {
    const auto rows = tpu_v1_applications();
    code = print(*json ? render_tpu_v1_json(rows) : text(rows));
  });
}

struct OnChip {
  Request request;
  MappingOptions options;
  Output output;
};

int perform(const OnChip& asked) {
  if (asked.request.program.empty())
    return fail(usage_error("expected a PROGRAM, systolic or weights; found none",
                            "ridge simulate examples/mlp.ridge --on sn40l"));
  const auto mapped = simulate(asked.request, asked.options);
  if (!mapped) return fail(mapped.error());
  if (!asked.output.svg.empty())
    if (const Status written = write_file(asked.output.svg, render_svg(*mapped)); !written)
      return fail(written.error());
  return print(asked.output.json ? render_json(*mapped) : render_text(*mapped));
}

}  // namespace

void add_simulate(CLI::App& app, int& code) {
  auto asked = std::make_shared<OnChip>();
  asked->request.on = "sn40l";
  CLI::App* verb = app.add_subcommand("simulate", "See why a machine is idle: fill, drain, folds, waits, calls");
  verb->footer(
      "Examples:\n"
      "  ridge simulate examples/mlp.ridge --on sn40l --layers 32 --sync 5e-6 --svg mlp.svg\n"
      "  ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n"
      "  ridge simulate weights\n");
  verb->require_subcommand(0, 1);
  verb->add_option("PROGRAM", asked->request.program, "A file, - for the standard input, or the text itself")
      ->type_name("");
  verb->add_option("--on", asked->request.on, "Chip: plasticine, sn10 or sn40l (default)")->type_name("CHIP");
  verb->add_option("-d", asked->request.dims, "Give a dimension its value; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  verb->add_option("--dtype", asked->request.dtype, "Dtype of tensors that name none (default bf16)")
      ->type_name("DTYPE");
  verb->add_option("--tile", asked->options.tile, "Rows of a tile (default: what a memory unit holds)")
      ->type_name("ROWS");
  verb->add_option("--layers", asked->options.layers, "The program this often, with other weights")->type_name("L");
  verb->add_option("--sync", asked->options.sync_seconds, "Seconds that a call costs; unpublished (default 0)")
      ->type_name("S");
  verb->add_flag("--json", asked->output.json, "Print JSON (ridge.report/1) instead of text");
  verb->add_option("--svg", asked->output.svg, "Draw the metapipe filling up into this file")->type_name("FILE");
  add_systolic(*verb, code);
  add_weights(*verb, code);
  verb->callback([asked, verb, &code] {
    if (verb->get_subcommands().empty()) code = perform(*asked);
  });
}

}  // namespace ridge::cli
