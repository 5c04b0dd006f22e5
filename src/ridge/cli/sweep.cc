// ridge sweep: one program at many sizes, on several machines, in several dtypes.
#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/sweep.h"

namespace ridge::cli {
namespace {

struct SweepArgs {
  SweepRequestArgs request_args;
  OutputFormat format;
  std::string svg, html;
  bool stripes = false;
  api::StripesRequest stripes_request;
  const CLI::App* verb = nullptr;
};

std::string render_in_format(const Sweep& sweep, const OutputFormat& format) {
  if (format.json) return render_json(sweep);
  if (format.csv) return render_csv(sweep);
  return format.md ? render_markdown(sweep) : render_text(sweep, text_style());
}

Result<int> print_stripes(const SweepArgs& args, const SweepRequest& request) {
  if (const Status valid =
          check_combined_options(*args.verb, "--stripes", "-d --on --dtype --tile --measure --svg --json --csv --md");
      !valid)
    return valid.error();
  RIDGE_TRY(found, api::predict_stripes(request, args.stripes_request));
  RIDGE_TRY_STATUS(write_if_requested(args.svg, [&] { return render_svg(found); }));
  return print_result(args.format, render_text(found, text_style()), render_json(found), "sizes");
}

Result<int> run_sweep(SweepArgs& args) {
  RIDGE_TRY(positionals, split_positionals(args.request_args.positionals, "sweep"));
  args.request_args.program = positionals.program;
  args.request_args.dims.insert(args.request_args.dims.end(), positionals.dims.begin(), positionals.dims.end());
  RIDGE_TRY(request, to_request(args.request_args));
  if (args.stripes) return print_stripes(args, request);
  RIDGE_TRY_STATUS(check_required_option(*args.verb, "--tile --measure", "--stripes"));
  request.curves = !args.svg.empty() || !args.html.empty();
  const auto bar = progress_bar();
  const auto swept = sweep(request, bar ? [&](double done) { bar(done, "sweep"); } : std::function<void(double)>());
  end_progress();
  if (!swept) return swept.error();
  RIDGE_TRY_STATUS(write_if_requested(args.svg, [&] { return render_svg(*swept); }));
  RIDGE_TRY_STATUS(write_page(args.html, [&] { return api::make_page(request, *swept); }));
  return print_result(render_in_format(*swept, args.format));
}

void add_swept_options(CLI::App& verb, SweepRequestArgs& r) {
  add_positional_arguments(verb, r.positionals);
  verb.add_option("--on", r.on, "Machines: catalog names, .toml files, or cpu (default)")
      ->type_name("A,B,C")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(name_of("a machine"));
  add_repeated_option(verb, "-d", r.dims,
                      "Values of a dimension: B=256, B=1,8,64, B=1..4096:*2, B=128..512:128; may be repeated",
                      "NAME=VALUES");
  verb.add_option("--dtype", r.dtypes, "Dtypes of tensors that declare none (default bf16)")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--split", r.split, "Split a dimension over chips: D=2, D=1,2,4, D=1..16:*2; results are one chip's")
      ->type_name("NAME=CHIPS");
  verb.add_option("--link", r.link,
                  "Link between chips: a name, or a rate one way (450e9, 450GB/s; default: the first)")
      ->type_name("LINK");
}

}  // namespace

void add_sweep(CLI::App& app, int& code) {
  auto args = std::make_shared<SweepArgs>();
  CLI::App* verb =
      app.add_subcommand("sweep", "Explain a program at many sizes, on several machines: where the limiter changes");
  verb->footer(
      "Examples:\n"
      "  ridge sweep 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e,h100 -d B=1..4096:*2 D=8192 F=8192\n"
      "  ridge sweep examples/mlp.ridge --on h100,h200,b200 -d B=1..1024 --csv\n"
      "  ridge sweep 'A[B, D] * W[D, F] -> C[B, F]' --on h100 --dtype bf16,int8 -d B=1..4096:*2 D=4096 F=4096 --svg "
      "s.svg\n"
      "  ridge sweep 'bf16[N, K] * bf16[K, N2] -> bf16[N, N2]' --stripes --on a100_40 -d N=1664..1920:32 K=1792 "
      "N2=1792 "
      "--tile 256x128\n");
  add_swept_options(*verb, args->request_args);
  verb->add_flag("--stripes", args->stripes,
                 "Predict the rate of a product along one dimension, with the steps of tiles and waves");
  verb->add_option("--tile", args->stripes_request.tile,
                   "With --stripes: predict the vendor library's kernels with this tile (default: the plan's kernels, "
                   "or the library's fastest on machines without a planner)")
      ->type_name("ROWSxCOLUMNS");
  verb->add_flag("--measure", args->stripes_request.measure, "With --stripes: also run each size on this computer");
  args->verb = verb;
  add_format_options(*verb, args->format, "ridge.sweep/1");
  verb->add_option("--svg", args->svg, "Plot the curves into this file")->type_name("FILE")->check(name_of("a file"));
  verb->add_option("--html", args->html, "Write an interactive page with the curves into this file")
      ->type_name("FILE")
      ->check(name_of("a file"));
  group_options(*verb, {{"Program", "PROGRAM -d --dtype"},
                        {"Machine", "--on --link"},
                        {"What if", "--split"},
                        {"Rate of a product", "--stripes --tile --measure"},
                        {"Output", "--svg --html"}});
  verb->callback([args, &code] { code = exit_code_of(run_sweep(*args)); });
}

}  // namespace ridge::cli
