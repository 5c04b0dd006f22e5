// ridge simulate PROGRAM: a program on a dataflow chip; and what its sub-verbs share.
#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct OnChip {
  Spelled spelled;
  MappingOptions options;
  std::string sync = "0";
  Pictures pictures;
  OutputForm form;
};

int perform(OnChip& asked) {
  if (const Status sorted = sort_words(asked.spelled, "simulate"); !sorted) return fail(sorted.error());
  if (asked.spelled.program.empty())
    return fail(usage_error("expected a PROGRAM, systolic, weights, metapipe, decode or kernel; found none",
                            "ridge simulate examples/mlp.ridge --on sn40l"));
  const auto syncs = parse_syncs(asked.sync);
  if (!syncs) return fail(syncs.error());
  MappingOptions options = asked.options;
  options.sync_seconds = *syncs;
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto mapped = api::simulate(*request, options);
  if (!mapped) return fail(mapped.error());
  const Status drawn = draw(
      asked.pictures, [&] { return render_svg(*mapped); }, timeline_of(*mapped), title_of(*mapped));
  if (!drawn) return fail(drawn.error());
  return print(asked.form, render_text(*mapped), render_json(*mapped), "passes");
}

}  // namespace

void add_pictures(CLI::App& verb, Pictures& pictures, const std::string& what) {
  verb.add_option("--svg", pictures.svg, "Draw " + what + " into this file")->type_name("FILE");
  verb.add_option("--trace", pictures.trace, "Write the timeline as JSON that ui.perfetto.dev loads")
      ->type_name("FILE");
}

Status draw(const Pictures& pictures, const std::function<std::string()>& page, const Timeline& timeline,
            const std::string& title) {
  if (!pictures.svg.empty())
    if (const Status written = write_file(pictures.svg, page()); !written) return written;
  if (!pictures.trace.empty()) return write_file(pictures.trace, chrome_trace(timeline, title));
  return Done{};
}

void add_simulate(CLI::App& app, int& code) {
  auto asked = std::make_shared<OnChip>();
  asked->spelled.on = "sn40l";
  CLI::App* verb = app.add_subcommand("simulate", "See why a machine is idle: fill, drain, folds, waits, calls");
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
  add_words(*verb, asked->spelled.words);
  verb->add_option("--on", asked->spelled.on, "Chip: plasticine, sn10 or sn40l (default)")->type_name("CHIP");
  verb->add_option("-d", asked->spelled.dims, "Give a dimension its value; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  verb->add_option("--dtype", asked->spelled.dtype, "Dtype of tensors that name none (default bf16)")
      ->type_name("DTYPE");
  verb->add_option("--tile", asked->options.tile, "Rows of a tile (default: what a memory unit holds)")
      ->type_name("ROWS");
  verb->add_option("--inner", asked->options.inner, "A pipe within the pipe, in tiles along this dimension")
      ->type_name("DIM=SIZE");
  verb->add_option("--par", asked->options.par,
                   "Compute units for the stage that makes NAME (row_par); may be repeated")
      ->type_name("NAME=UNITS")
      ->expected(1)
      ->take_all();
  verb->add_option("--buffer", asked->options.buffer, "Tiles in the buffer behind NAME (default: as its readers need)")
      ->type_name("NAME=TILES")
      ->expected(1)
      ->take_all();
  verb->add_option("--schedule", asked->options.schedule, "Of every loop: pipelined (default), streaming, sequential")
      ->type_name("HOW");
  verb->add_option("--layers", asked->options.layers, "The program this often, with other weights")->type_name("L");
  verb->add_option("--sync", asked->sync, "Seconds that a call costs, some or a range; unpublished (default 0)")
      ->type_name("S|S,S|S..S:*F");
  add_form(*verb, asked->form, "ridge.simulate/1");
  add_pictures(*verb, asked->pictures, "the metapipe filling up");
  add_systolic(*verb, code);
  add_weights(*verb, code);
  add_metapipe(*verb, code);
  add_decode(*verb, code);
  add_kernel(*verb, code);
  verb->callback([asked, verb, &code] {
    if (verb->get_subcommands().empty()) code = perform(*asked);
  });
}

}  // namespace ridge::cli
