// ridge simulate systolic, ridge simulate weights: arrays of processing elements.
#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct SystolicArgs {
  SystolicRequest request;
  std::optional<std::int64_t> m, n, k;
  std::string table;
  PictureFiles pictures;
  OutputFormat format;
};

Result<int> simulate_systolic(SystolicArgs& args) {
  const int given = args.m.has_value() + args.n.has_value() + args.k.has_value();
  if (given != 0 && given != 3)
    return usage_error(fmt::format("expected M N K, found {} of them", given),
                       "A [M, K] times B [K, N] gives C [M, N]");
  if (given == 3) args.request.product = ProductSize{*args.m, *args.n, *args.k};
  RIDGE_TRY(runs, api::simulate_systolic(args.request, args.table));
  if (args.pictures.is_requested()) {
    if (runs.size() != 1)
      return usage_error(fmt::format("expected one product to draw, found {}", runs.size()), "give M N K");
    const SystolicRun& run = runs.front();
    RIDGE_TRY_STATUS(write_pictures(
        args.pictures, [&] { return render_svg(run); }, first_folds_timeline(run.task.array, run.task.product, 1024),
        title_of(run)));
  }
  if (args.table.empty()) return print_result(args.format, render_text(runs, text_style()), render_json(runs), "");
  std::string lines;
  for (const SystolicRun& run : runs) lines += render_json(run, true);
  return print_result(args.format, lines, lines, "");
}

}  // namespace

void add_systolic(CLI::App& simulate, int& code) {
  auto args = std::make_shared<SystolicArgs>();
  CLI::App* verb = simulate.add_subcommand("systolic", "Simulate a matrix product on a systolic array, cycle by cycle");
  verb->footer(
      "Examples:\n"
      "  ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n"
      "  ridge simulate systolic --rows 4 --cols 4 --dataflow ws --preload 1 4 4 --svg array.svg\n"
      "  ridge simulate systolic --topology layers.csv --config array.cfg\n");
  SystolicRequest& r = args->request;
  verb->add_option("M", args->m, "Rows of A and C")->type_name("");
  verb->add_option("N", args->n, "Columns of B and C")->type_name("");
  verb->add_option("K", args->k, "Columns of A, rows of B")->type_name("");
  verb->add_option("--rows", r.rows, "Rows of the array")->type_name("R");
  verb->add_option("--cols", r.cols, "Columns of the array")->type_name("C");
  verb->add_option("--dataflow", r.dataflow, "Stationary operand: os result, ws weights (default), is inputs")
      ->type_name("os|ws|is");
  verb->add_flag("--preload", r.preload, "The stationary operand is in place before a fold starts");
  verb->add_option("--bandwidth", r.bandwidth, "Words per cycle from memory, for all or for a,b,c: count stalls")
      ->type_name("W");
  verb->add_option("--sram", r.sram, "Words of SRAM, for all or for a,b,c (default 65536)")->type_name("W");
  verb->add_flag("--wait-once", r.wait_once, "Count each read stall once, instead of twice as SCALE-Sim does");
  verb->add_option("--topology", r.topology, "SCALE-Sim topology file: simulate each layer")->type_name("FILE.csv");
  verb->add_option("--config", r.config, "SCALE-Sim configuration file, instead of --rows, --cols and --dataflow")
      ->type_name("FILE.cfg");
  verb->add_option("--table", args->table, "CSV with the columns M,N,K: print one line of JSON for each row")
      ->type_name("FILE.csv");
  add_format_options(*verb, args->format, "ridge.simulate/1");
  add_picture_options(*verb, args->pictures,
                      fmt::format("folds and, up to {} elements and {} cycles, every element at every cycle",
                                  SystolicRun::max_drawn_elements, SystolicRun::max_drawn_cycles - 1));
  group_options(*verb, {{"Product", "M N K --topology --table"},
                        {"Array", "--rows --cols --dataflow --preload --config"},
                        {"Memory", "--bandwidth --sram --wait-once"}});
  verb->callback([args, &code] { code = exit_code_of(simulate_systolic(*args)); });
}

void add_weight_loading(CLI::App& simulate, int& code) {
  struct WeightsArgs {
    PictureFiles pictures;
    OutputFormat format;
  };
  auto args = std::make_shared<WeightsArgs>();
  CLI::App* verb = simulate.add_subcommand("weights", "Compare the weight path of TPU v1 with the paper's counters");
  verb->footer("Examples:\n  ridge simulate weights\n  ridge simulate weights --svg weights.svg\n");
  add_format_options(*verb, args->format, "ridge.simulate/1");
  add_picture_options(*verb, args->pictures, "eight weight tiles of MLP0, cycle by cycle");
  verb->callback([args, &code] {
    const auto rows = tpu_v1_applications();
    const std::string title = "TPU v1, MLP0: 200 rows through each of eight weight tiles";
    const auto clock =
        simulate_weight_loading({256, 256, Dataflow::weight_stationary}, {rows.front().batch, 256, 8 * 256}, {});
    if (!clock) {
      code = print_error(clock.error());
      return;
    }
    const Timeline& timeline = clock->timeline;
    const Status drawn = write_pictures(
        args->pictures, [&] { return timeline_svg(timeline, title); }, timeline, title);
    code = !drawn ? print_error(drawn.error())
                  : print_result(args->format, render_text(rows, text_style()), render_tpu_v1_json(rows), "rows");
  });
}

}  // namespace ridge::cli
