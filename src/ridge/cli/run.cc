#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/compare.h"
#include "ridge/report/timeline.h"

namespace ridge::cli {
namespace {

struct RunArgs {
  RequestArgs request_args;
  ReportOutput output;
  RunRequest run_request;
  std::vector<std::string> in, out;
  std::string seed = "0";
  int tune = 0;
  bool is_tune_given = false;  // True if the option is given, even with 0
  std::string time, against, timeout, trace;
  api::RanksRequest ranks;
  const CLI::App* verb = nullptr;
};

// Parses options of the form "x=a.npy".
Status parse_file_options(const std::vector<std::string>& given, std::string_view option,
                          std::map<std::string, std::string>& files) {
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return usage_error(fmt::format("expected TENSOR=FILE.npy after {}, found '{}'", option, text),
                         fmt::format("{} x=a.npy", option));
    const std::string tensor = text.substr(0, equals), file = text.substr(equals + 1);
    if (const auto [entry, is_new] = files.emplace(tensor, file); !is_new)
      return usage_error(
          fmt::format("tensor '{}' is given twice after {}, as '{}' and as '{}'", tensor, option, entry->second, file),
          "give each tensor once");
  }
  return Done{};
}

Status parse_seed(const std::string& text, std::uint64_t& seed) {
  const char* const stop = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data(), stop, seed);
  if (failed == std::errc() && end == stop) return Done{};
  return usage_error(fmt::format("expected a whole number from 0 to 2^64 - 1 after --seed, found '{}'", text),
                     "--seed 1");
}

// Parses "2s", "500ms" or "2" (seconds).
Status parse_duration(const std::string& text, std::string_view option, double& seconds) {
  if (text.empty()) return Done{};
  const char* const stop = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data(), stop, seconds);
  const std::string unit(end, stop);
  if (failed == std::errc() && (unit.empty() || unit == "s" || unit == "ms")) {
    if (unit == "ms") seconds /= 1000;
    if (seconds > 0 && seconds <= 3600) return Done{};
  }
  return usage_error(fmt::format("expected a time above 0 and at most an hour after {}, found '{}'", option, text),
                     fmt::format("{0} 2s, {0} 500ms", option));
}

int run_paired_programs(const RunArgs& args, const Request& request) {
  const auto invalid = check_combined_options(
      *args.verb, "--against", "-d --dtype --seed --threads --runs --time --no-fuse --json --csv --md --html");
  if (invalid) return print_error(*invalid);
  const auto both = api::run_alternating(request, args.against, args.run_request);
  if (!both) return print_error(both.error());
  end_progress();
  Request second = request;
  second.program = args.against;
  const Status page = write_page(args.output.html, [&] {
    return api::make_page({{request, both->first}, {second, both->second}});
  });
  if (!page) return print_error(page.error());
  int code = 0;
  if (args.output.json)
    code = print_result(render_alternating_runs_json(both->first, both->second, both->ratio));
  else if (args.output.csv || args.output.md)
    code = print_result(alternating_runs_table(both->first, both->second), alternating_runs_right_aligned, args.output);
  else
    code = print_result(render_alternating_runs_text(both->first, both->second, both->ratio, text_style()));
  for (const Report* report : {&both->first, &both->second})
    if (code == 0 && report->measured->mismatch) return print_error(*report->measured->mismatch);
  return code;
}

int run_ranks(RunArgs& args, const Request& request) {
  args.ranks.on_abort = [](const Error& error) { (void)print_error(error); };
  if (!args.output.html.empty())
    return print_error(usage_error("expected --html without --ranks and --mesh: the page shows runs of one process"));
  const auto code = api::run_on_ranks(request, args.run_request, args.ranks, [&](const Report& report) {
    const Timeline& timeline = report.measured->ranks->timeline;
    const Status drawn = write_if_requested(args.trace, [&] { return chrome_trace(timeline, report.title); });
    return drawn ? print_report(report, args.output, request) : print_error(drawn.error());
  });
  return code ? *code : print_error(code.error());
}

int run_program(RunArgs& args) {
  if (const Status valid = read_positionals(args.request_args, "run"); !valid) return print_error(valid.error());
  if (const Status parsed = parse_file_options(args.in, "--in", args.run_request.in); !parsed)
    return print_error(parsed.error());
  if (const Status parsed = parse_file_options(args.out, "--out", args.run_request.out); !parsed)
    return print_error(parsed.error());
  if (const Status parsed = parse_seed(args.seed, args.run_request.seed); !parsed) return print_error(parsed.error());
  if (args.is_tune_given && run_target_of(args.request_args.on) != RunTarget::cuda)
    return print_error(
        usage_error("expected --tune together with --on cuda: it measures plans of matrix products on a CUDA device"));
  if (args.is_tune_given)
    args.run_request.tuning = {args.tune > 0 ? Tuning::From::measured : Tuning::From::model, args.tune};
  args.run_request.progress = progress_bar();
  if (const Status parsed = parse_duration(args.time, "--time", args.run_request.seconds); !parsed)
    return print_error(parsed.error());
  if (const Status parsed = parse_duration(args.timeout, "--patience", args.ranks.timeout_s); !parsed)
    return print_error(parsed.error());
  if (args.run_request.passes > 0 && args.run_request.seconds > 0)
    return print_error(usage_error("expected either --runs or --time, found both"));
  const auto request = to_request(args.request_args);
  if (!request) return print_error(request.error());
  if (!args.against.empty()) return run_paired_programs(args, *request);
  // A sharded program runs on ranks without further options. The standard input cannot be read twice.
  const auto sharded = request->program == "-" ? Result<bool>(false) : api::is_sharded(*request);
  if (!sharded) return print_error(sharded.error());
  const bool needs_ranks = *sharded || args.ranks.is_requested() || api::count_launched_ranks() > 1;
  if (!needs_ranks)
    if (const auto invalid = check_required_option(*args.verb, "--trace --patience --spread --in-turn", "--ranks"))
      return print_error(*invalid);
  if (needs_ranks) return run_ranks(args, *request);
  const auto report = api::run(*request, args.run_request);
  return report ? print_report(*report, args.output, *request) : print_error(report.error());
}

void add_ranks_options(CLI::App& verb, RunArgs& args) {
  verb.add_option("--ranks", args.ranks.ranks,
                  "Run on this many processes of this machine; an unsharded program gets the best sharding of "
                  "`ridge shard`")
      ->type_name("P")
      ->check(whole_number_between(1, 256));
  verb.add_option("--mesh", args.ranks.mesh, "Run with one rank for each device of this mesh")->type_name("X=2,Y=2");
  verb.add_flag("--spread", args.ranks.distribute_evenly,
                "With --ranks, for a single product: distribute each tensor evenly, without copies, on the best grid "
                "p1 x p2 x p3");
  verb.add_flag("--in-turn", args.ranks.no_overlap,
                "With --ranks or --mesh and --on cuda: never overlap products with communication");
  verb.add_option("--trace", args.trace,
                  "With --ranks or --mesh: write a trace of the last pass for ui.perfetto.dev, one track for each rank")
      ->type_name("FILE.json");
  verb.add_option("--patience", args.timeout,
                  "With --ranks or --mesh: timeout of a rank that waits for another rank (default: 2 min)")
      ->type_name("TIME");
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  auto args = std::make_shared<RunArgs>();
  CLI::App* verb = app.add_subcommand(
      "run", "Run a program on this CPU or a CUDA device, time it and check its results against fp64");
  verb->footer(
      "Examples:\n"
      "  ridge run examples/mlp.ridge --svg mlp.svg\n"
      "  ridge run examples/mlp.ridge B=16 --time 2s\n"
      "  ridge run examples/dot.ridge --against 'x * y: f32[N], f32[N] -> f32[1]' N=1000000\n"
      "  ridge run examples/mlp.ridge --ranks 4 B=64\n"
      "  ridge run $'x: bf16[B, D_X]   w: bf16[D_X, F]\\ny: bf16[B, F] = x * w' --mesh X=4 B=64 D=4096 F=4096\n"
      "  ridge run examples/mlp.ridge --on cuda\n"
      "  ridge run examples/mlp.ridge --on cuda --tune\n"
      "  ridge run examples/geglu.ridge -d N=256 --threads 1 --json\n"
      "  ridge run 'f32[M, K] * f32[K, N] -> f32[M, N]' -d M=512 -d N=512 -d K=512 --in X=a.npy --out Z=z.npy\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  verb->add_option(
          "--in", args->in,
          "Read an input from this file; other inputs are random: normal, weights divided by the square root of "
          "the summed extent")
      ->type_name("TENSOR=FILE.npy")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--out", args->out, "Write a result into this file")
      ->type_name("TENSOR=FILE.npy")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--seed", args->seed, "Seed of the random inputs (default 0)")->type_name("N");
  verb->add_option("--threads", args->run_request.threads,
                   "Number of threads (default: every core this process may use)")
      ->type_name("N")
      ->check(whole_number_between(1, 4096));
  verb->add_option("--runs", args->run_request.passes,
                   "Number of runs (default: at least five and 0.2 s); on cuda, replays of each graph")
      ->type_name("N")
      ->check(whole_number_between(1, 1'000'000));
  verb->add_option("--time", args->time, "Minimum duration: 2s, 500ms")->type_name("TIME");
  verb->add_option("--against", args->against,
                   "Also run this program, alternating with the first, and report the ratio of times")
      ->type_name("PROGRAM");
  const auto* tune =
      verb->add_flag(
              "--tune{8}", args->tune,
              "On cuda: measure the N best plans of each product by the model and cache the fastest for later runs; "
              "--tune=0: use the model's choices, not the cache")
          ->type_name("[=N]")
          ->check(whole_number_between(0, 1000));
  add_ranks_options(*verb, *args);
  verb->add_flag("--why", args->request_args.explain_overhead,
                 "Attribute each operation's time above its bound to causes");
  add_no_fuse_option(*verb, args->request_args);
  add_output_options(*verb, args->output);
  verb->callback([args, tune, &code] {
    args->is_tune_given = tune->count() > 0;
    code = run_program(*args);
  });
}

}  // namespace ridge::cli
