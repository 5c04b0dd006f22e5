// ridge simulate metapipe, decode, kernel: a pipeline of loops, the calls of one token, one block of a Hopper kernel.
#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/simulate.h"
#include "ridge/report/simulate/simulate.h"

namespace ridge::cli {
namespace {

struct MetapipeArgs {
  PipeRequest request;
  PictureFiles pictures;
  OutputFormat format;
};

Result<int> simulate_metapipe(const MetapipeArgs& args) {
  RIDGE_TRY(report, run_pipe(args.request));
  RIDGE_TRY_STATUS(write_pictures(
      args.pictures, [&] { return render_svg(report); }, report.run.timeline, title_of(report)));
  return print_result(args.format, render_text(report, text_style()), render_json(report), "stages");
}

struct DecodeArgs {
  std::string on = "sn40l", sync = "0,1e-7,1e-6,1e-5,1e-4", svg;
  DecodeOptions options;
  OutputFormat format;
};

Result<int> simulate_decode(const DecodeArgs& args) {
  RIDGE_TRY(syncs, parse_sync_seconds(args.sync));
  DecodeOptions options = args.options;
  options.sync_seconds = syncs;
  RIDGE_TRY(report, api::predict_decode(args.on, options));
  if (!args.svg.empty()) RIDGE_TRY_STATUS(write_file(args.svg, render_svg(report)));
  return print_result(args.format, render_text(report, text_style()), render_json(report), "calling");
}

struct KernelArgs {
  KernelTimelineOptions options;
  PictureFiles pictures;
  OutputFormat format;
};

Result<int> simulate_kernel(const KernelArgs& args) {
  RIDGE_TRY(kernel, make_kernel_timeline(args.options));
  RIDGE_TRY_STATUS(write_pictures(
      args.pictures, [&] { return render_svg(kernel); }, kernel.timeline, title_of(kernel)));
  return print_result(args.format, render_text(kernel), render_json(kernel), "");
}

}  // namespace

void add_decode(CLI::App& simulate, int& code) {
  auto args = std::make_shared<DecodeArgs>();
  CLI::App* verb =
      simulate.add_subcommand("decode", "Predict one token of a language model: kernel by kernel, fused, looped");
  verb->footer(
      "Examples:\n"
      "  ridge simulate decode --on sn40l --chips 16 --sync 1e-7..1e-4:*10 --svg calls.svg\n"
      "  ridge simulate decode --model llama_3_70b --on h100 --chips 8\n");
  verb->add_option("--on", args->on, "Machine: a catalog name or a .toml file (default sn40l)")->type_name("MACHINE");
  verb->add_option("--model", args->options.model,
                   "Hugging Face config.json, its folder, or a name of models/ (default llama_3_8b)")
      ->type_name("CONFIG");
  verb->add_option("--chips", args->options.chips, "Number of chips that share weights and cache (default 16)")
      ->type_name("N");
  verb->add_option("--context", args->options.context, "Tokens in the cache (default 4096)")->type_name("N");
  verb->add_option("--sync", args->sync, "Cost of a call in seconds: a value, list or range; unpublished")
      ->type_name("S|S,S|S..S:*F");
  add_format_options(*verb, args->format, "ridge.simulate/1");
  verb->add_option("--svg", args->svg, "Plot the three variants over the cost of a call into this file")
      ->type_name("FILE");
  group_options(*verb, {{"Output", "--svg"}});
  verb->callback([args, &code] { code = exit_code_of(simulate_decode(*args)); });
}

void add_kernel_timeline(CLI::App& simulate, int& code) {
  auto args = std::make_shared<KernelArgs>();
  CLI::App* verb =
      simulate.add_subcommand("kernel", "Simulate one block of a Hopper kernel: overlapping load, compute and store");
  verb->footer(
      "Examples:\n  ridge simulate kernel sm90_128x192x64_pingpong --k 1024 --tiles 4 --svg kernel.svg\n"
      "  ridge simulate kernel sm90_attention_128x128x128 --k 1024 --tiles 2 --svg attention.svg\n");
  verb->add_option("NAME", args->options.kernel,
                   "A kernel of `ridge kernels` or of a plan (default sm90_128x256x64_cooperative)")
      ->type_name("");
  verb->add_option("--k", args->options.k,
                   "K of the product, keys of attention, or rows of attention's gradients (default 1024)")
      ->type_name("K");
  verb->add_option("--tiles", args->options.tiles, "Number of consecutive output tiles (default 3)")->type_name("N");
  add_format_options(*verb, args->format, "ridge.simulate/1");
  add_picture_options(*verb, args->pictures, "the activity of each warpgroup");
  verb->callback([args, &code] { code = exit_code_of(simulate_kernel(*args)); });
}

void add_metapipe(CLI::App& simulate, int& code) {
  auto args = std::make_shared<MetapipeArgs>();
  CLI::App* verb =
      simulate.add_subcommand("metapipe", "Simulate a pipeline of loops and compare it with its closed form");
  verb->footer(
      "Examples:\n"
      "  ridge simulate metapipe 'pipelined rows 10 { load a 100  compute b 300  store c 50 }'\n"
      "  ridge simulate metapipe 'pipelined rows 10 { load a 100  compute b 300  store c 50 }' --split b=3\n"
      "  ridge simulate metapipe examples/matmul.pipe --svg matmul.svg --trace matmul.json\n");
  verb->add_option("PIPE", args->request.pipe, "A file, - for the standard input, or the pipeline text")
      ->type_name("")
      ->required();
  add_repeated_option(*verb, "--split", args->request.split, "Divide a stage into consecutive stages; may be repeated",
                      "STAGE=PIECES");
  add_format_options(*verb, args->format, "ridge.simulate/1");
  add_picture_options(*verb, args->pictures, "the pipeline filling up");
  verb->callback([args, &code] { code = exit_code_of(simulate_metapipe(*args)); });
}

}  // namespace ridge::cli
