// ridge simulate PROGRAM: a program on a dataflow chip; shared code of the other simulate verbs.
#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct SimulateArgs {
  RequestArgs request_args;
  MappingOptions options;
  std::string sync = "0";
  PictureFiles pictures;
  OutputFormat format;
};

Result<int> run_simulate(SimulateArgs& args) {
  RIDGE_TRY_STATUS(read_positionals(args.request_args, "simulate"));
  if (args.request_args.program.empty())
    return usage_error("expected a PROGRAM, systolic, weights, metapipe, decode or kernel; found none",
                       "ridge simulate examples/mlp.ridge --on sn40l");
  RIDGE_TRY(syncs, parse_sync_seconds(args.sync));
  MappingOptions options = args.options;
  options.sync_seconds = syncs;
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(mapped, api::simulate_mapping(request, options));
  RIDGE_TRY_STATUS(write_pictures(
      args.pictures, [&] { return render_svg(mapped); }, timeline_of(mapped), title_of(mapped)));
  return print_result(args.format, render_text(mapped, text_style()), render_json(mapped), "passes");
}

}  // namespace

void add_picture_options(CLI::App& verb, PictureFiles& pictures, const std::string& what) {
  verb.add_option("--svg", pictures.svg, "Draw " + what + " into this file")->type_name("FILE");
  verb.add_option("--trace", pictures.trace, "Write the timeline as a trace for ui.perfetto.dev")->type_name("FILE");
  group_options(verb, {{"Output", "--svg --trace"}});
}

Status write_pictures(const PictureFiles& pictures, const std::function<std::string()>& page, const Timeline& timeline,
                      const std::string& title) {
  if (!pictures.svg.empty()) RIDGE_TRY_STATUS(write_file(pictures.svg, page()));
  if (!pictures.trace.empty()) return write_file(pictures.trace, chrome_trace(timeline, title));
  return Done{};
}

static void add_mapping_options(CLI::App& verb, SimulateArgs& args) {
  verb.add_option("--tile", args.options.tile, "Rows of a tile (default: as many as a memory unit holds)")
      ->type_name("ROWS");
  verb.add_option("--inner", args.options.inner, "Add an inner pipeline with tiles along this dimension")
      ->type_name("DIM=SIZE");
  add_repeated_option(verb, "--par", args.options.par,
                      "Compute units of the stage that computes NAME (row_par); may be repeated", "NAME=UNITS");
  add_repeated_option(verb, "--buffer", args.options.buffer,
                      "Tiles in the buffer of NAME (default: as its readers need)", "NAME=TILES");
  verb.add_option("--schedule", args.options.schedule,
                  "Schedule of all loops: pipelined (default), streaming, sequential")
      ->type_name("HOW");
  verb.add_option("--layers", args.options.layers, "Number of layers like the program, each with its own weights")
      ->type_name("L");
  verb.add_option("--sync", args.sync, "Cost of a call in seconds: a value, list or range; unpublished (default 0)")
      ->type_name("S|S,S|S..S:*F");
}

void add_simulate(CLI::App& app, int& code) {
  auto args = std::make_shared<SimulateArgs>();
  args->request_args.on = "sn40l";
  CLI::App* verb = app.add_subcommand("simulate", "Simulate why a machine is idle: fill, drain, folds, waits, calls");
  verb->footer(
      "Examples:\n"
      "  ridge simulate examples/flash_attention.ridge --on sn40l --inner T=256 --svg attention.svg\n"
      "  ridge simulate examples/llama_decoder.ridge --on sn40l --layers 32 --sync 1e-7..1e-4:*10\n"
      "  ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n"
      "  ridge simulate weights\n"
      "  ridge simulate metapipe 'pipelined rows 10 { load a 100  compute b 300  store c 50 }'\n"
      "  ridge simulate decode --on sn40l --chips 16 --sync 1e-7..1e-4:*10\n"
      "  ridge simulate kernel sm90_128x192x64_pingpong --svg kernel.svg\n");
  verb->require_subcommand(0, 1);
  add_positional_arguments(*verb, args->request_args.positionals);
  verb->add_option("--on", args->request_args.on, "Chip: plasticine, sn10 or sn40l (default)")->type_name("CHIP");
  add_repeated_option(*verb, "-d", args->request_args.dims, "Value of a dimension; may be repeated", "NAME=VALUE");
  verb->add_option("--dtype", args->request_args.dtype, "Dtype of tensors that declare none (default bf16)")
      ->type_name("DTYPE");
  add_mapping_options(*verb, *args);
  add_format_options(*verb, args->format, "ridge.simulate/1");
  add_picture_options(*verb, args->pictures, "the metapipe filling up");
  group_options(*verb, {{"Program", "PROGRAM -d --dtype"},
                        {"Machine", "--on"},
                        {"Mapping", "--tile --inner --par --buffer --schedule --layers --sync"}});
  add_systolic(*verb, code);
  add_weight_loading(*verb, code);
  add_metapipe(*verb, code);
  add_decode(*verb, code);
  add_kernel_timeline(*verb, code);
  verb->callback([args, verb, &code] {
    if (verb->get_subcommands().empty()) code = exit_code_of(run_simulate(*args));
  });
}

}  // namespace ridge::cli
