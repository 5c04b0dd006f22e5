// ridge simulate metapipe, decode, kernel: a pipe of loops from a text, a token's calls, a block of our own kernels.
#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct Pipe {
  PipeRequest request;
  Pictures pictures;
  OutputForm form;
};

int perform(const Pipe& asked) {
  const auto report = run_pipe(asked.request);
  if (!report) return fail(report.error());
  const Status drawn = draw(
      asked.pictures, [&] { return render_svg(*report); }, report->run.timeline, title_of(*report));
  if (!drawn) return fail(drawn.error());
  return print(asked.form, render_text(*report), render_json(*report), "stages");
}

struct Decode {
  std::string on = "sn40l", sync = "0,1e-7,1e-6,1e-5,1e-4", svg;
  DecodeOptions options;
  OutputForm form;
};

int perform(const Decode& asked) {
  const auto syncs = parse_syncs(asked.sync);
  if (!syncs) return fail(syncs.error());
  DecodeOptions options = asked.options;
  options.sync_seconds = *syncs;
  const auto report = api::decode(asked.on, options);
  if (!report) return fail(report.error());
  if (!asked.svg.empty())
    if (const Status written = write_file(asked.svg, render_svg(*report)); !written) return fail(written.error());
  return print(asked.form, render_text(*report), render_json(*report), "calling");
}

struct Kernel {
  KernelTimelineOptions options;
  Pictures pictures;
  OutputForm form;
};

int perform(const Kernel& asked) {
  const auto kernel = kernel_timeline(asked.options);
  if (!kernel) return fail(kernel.error());
  const Status drawn = draw(
      asked.pictures, [&] { return render_svg(*kernel); }, kernel->timeline, title_of(*kernel));
  if (!drawn) return fail(drawn.error());
  return print(asked.form, render_text(*kernel), render_json(*kernel), "");
}

}  // namespace

void add_decode(CLI::App& simulate, int& code) {
  auto asked = std::make_shared<Decode>();
  CLI::App* verb = simulate.add_subcommand("decode", "A token of Llama-3.1-8B: kernel by kernel, fused, looped");
  verb->footer(
      "Examples:\n"
      "  ridge simulate decode --on sn40l --chips 16 --sync 1e-7..1e-4:*10 --svg calls.svg\n"
      "  ridge simulate decode --on h100 --chips 1\n");
  verb->add_option("--on", asked->on, "A machine of the catalog, or a file (default sn40l)")->type_name("MACHINE");
  verb->add_option("--chips", asked->options.chips, "How many share weights and cache (default 16)")->type_name("N");
  verb->add_option("--context", asked->options.context, "Tokens in the cache (default 4096)")->type_name("N");
  verb->add_option("--sync", asked->sync, "Seconds that a call costs, some or a range; unpublished")
      ->type_name("S|S,S|S..S:*F");
  add_form(*verb, asked->form, "ridge.simulate/1");
  verb->add_option("--svg", asked->svg, "Draw the three ways over a call's cost into this file")->type_name("FILE");
  verb->callback([asked, &code] { code = perform(*asked); });
}

void add_kernel(CLI::App& simulate, int& code) {
  auto asked = std::make_shared<Kernel>();
  CLI::App* verb = simulate.add_subcommand("kernel", "One block of a Hopper kernel: load beside compute beside store");
  verb->footer(
      "Examples:\n  ridge simulate kernel sm90_128x192x64_pingpong --k 1024 --tiles 4 --svg kernel.svg\n"
      "  ridge simulate kernel sm90_attention_128x128x128 --k 1024 --tiles 2 --svg attention.svg\n");
  verb->add_option("NAME", asked->options.kernel,
                   "A kernel of `ridge kernels` or of a plan (default sm90_128x256x64_cooperative)")
      ->type_name("");
  verb->add_option("--k", asked->options.k,
                   "K of the product, or attention's keys, of its gradients the rows (default 1024)")
      ->type_name("K");
  verb->add_option("--tiles", asked->options.tiles, "Output tiles, one after the other (default 3)")->type_name("N");
  add_form(*verb, asked->form, "ridge.simulate/1");
  add_pictures(*verb, asked->pictures, "who is busy when");
  verb->callback([asked, &code] { code = perform(*asked); });
}

void add_metapipe(CLI::App& simulate, int& code) {
  auto asked = std::make_shared<Pipe>();
  CLI::App* verb = simulate.add_subcommand("metapipe", "A pipe of loops, clocked beside its closed form");
  verb->footer(
      "Examples:\n"
      "  ridge simulate metapipe 'pipelined rows 10 { load a 100  compute b 300  store c 50 }'\n"
      "  ridge simulate metapipe 'pipelined rows 10 { load a 100  compute b 300  store c 50 }' --split b=3\n"
      "  ridge simulate metapipe examples/matmul.pipe --svg matmul.svg --trace matmul.json\n");
  verb->add_option("PIPE", asked->request.pipe, "A file, - for the standard input, or the text itself")
      ->type_name("")
      ->required();
  verb->add_option("--split", asked->request.split, "Divide a stage into stages in a row; may be repeated")
      ->type_name("STAGE=PIECES")
      ->expected(1)
      ->take_all();
  add_form(*verb, asked->form, "ridge.simulate/1");
  add_pictures(*verb, asked->pictures, "the pipe filling up");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
