#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/beside.h"
#include "ridge/report/timeline.h"

namespace ridge::cli {
namespace {

struct Run {
  Spelled spelled;
  Output output;
  RunRequest how;
  std::vector<std::string> in, out;
  std::string seed = "0";
  int tune = 0;
  bool tunes = false;  // it was asked for, be it for 0
  std::string time, against, patience, trace;
  api::RanksRequest ranks;
  const CLI::App* verb = nullptr;
};

// "x=a.npy" into its two halves.
Status split(const std::vector<std::string>& given, std::string_view option, std::map<std::string, std::string>& to) {
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return usage_error(fmt::format("expected TENSOR=FILE.npy after {}, found '{}'", option, text),
                         fmt::format("{} x=a.npy", option));
    const std::string tensor = text.substr(0, equals), file = text.substr(equals + 1);
    if (const auto [there, is_new] = to.emplace(tensor, file); !is_new)
      return usage_error(
          fmt::format("tensor '{}' is given twice after {}, as '{}' and as '{}'", tensor, option, there->second, file),
          "give each tensor once");
  }
  return Done{};
}

Status read_seed(const std::string& text, std::uint64_t& seed) {
  const char* const stop = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data(), stop, seed);
  if (failed == std::errc() && end == stop) return Done{};
  return usage_error(fmt::format("expected a whole number from 0 to 2^64 - 1 after --seed, found '{}'", text),
                     "--seed 1");
}

// "2s", "500ms" or "2": seconds.
Status read_time(const std::string& text, std::string_view option, double& seconds) {
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

int run_both(const Run& asked, const Request& request) {
  const auto refused = refuse_beside(*asked.verb, "--against",
                                     "-d --dtype --seed --threads --runs --time --no-fuse --json --csv --md --html");
  if (refused) return fail(*refused);
  const auto both = api::run_against(request, asked.against, asked.how);
  if (!both) return fail(both.error());
  end_progress();
  Request second = request;
  second.program = asked.against;
  const Status page = write_page(asked.output.html, [&] {
    return api::page_of({{request, both->first}, {second, both->second}});
  });
  if (!page) return fail(page.error());
  int code = 0;
  if (asked.output.json)
    code = print(render_together_json(both->first, both->second, both->ratio));
  else if (asked.output.csv || asked.output.md)
    code = print(together_table(both->first, both->second), together_right, asked.output);
  else
    code = print(render_together_text(both->first, both->second, both->ratio, style()));
  for (const Report* report : {&both->first, &both->second})
    if (code == 0 && report->measured->mismatch) return fail(*report->measured->mismatch);
  return code;
}

int run_on_ranks(Run& asked, const Request& request) {
  asked.ranks.last_words = [](const Error& error) { (void)fail(error); };
  if (!asked.output.html.empty())
    return fail(usage_error("expected --html without --ranks and --mesh: the page runs in one place"));
  const auto code = api::run_on_ranks(request, asked.how, asked.ranks, [&](const Report& report) {
    const Timeline& timeline = report.measured->ranks->timeline;
    const Status drawn = write_if_asked(asked.trace, [&] { return chrome_trace(timeline, report.title); });
    return drawn ? deliver(report, asked.output, request) : fail(drawn.error());
  });
  return code ? *code : fail(code.error());
}

int perform(Run& asked) {
  if (const Status sorted = sort_words(asked.spelled, "run"); !sorted) return fail(sorted.error());
  if (const Status read = split(asked.in, "--in", asked.how.in); !read) return fail(read.error());
  if (const Status read = split(asked.out, "--out", asked.how.out); !read) return fail(read.error());
  if (const Status read = read_seed(asked.seed, asked.how.seed); !read) return fail(read.error());
  if (asked.tunes && where(asked.spelled.on) != Where::cuda)
    return fail(usage_error("expected --tune together with --on cuda: it measures plans of a CUDA device's products"));
  if (asked.tunes) asked.how.tuning = {asked.tune > 0 ? Tuning::From::measured : Tuning::From::model, asked.tune};
  asked.how.progress = progress_bar();
  if (const Status read = read_time(asked.time, "--time", asked.how.seconds); !read) return fail(read.error());
  if (const Status read = read_time(asked.patience, "--patience", asked.ranks.patience_s); !read)
    return fail(read.error());
  if (asked.how.passes > 0 && asked.how.seconds > 0)
    return fail(usage_error("expected either --runs or --time, found both"));
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  if (!asked.against.empty()) return run_both(asked, *request);
  // One that says how it is split needs no more words; the standard input can be read once only.
  const auto says = request->program == "-" ? Result<bool>(false) : api::is_sharded(*request);
  if (!says) return fail(says.error());
  const bool on_ranks = *says || asked.ranks.asked() || api::ranks_started() > 1;
  if (!on_ranks)
    if (const auto refused = refuse_without(*asked.verb, "--trace --patience --spread --in-turn", "--ranks"))
      return fail(*refused);
  if (on_ranks) return run_on_ranks(asked, *request);
  const auto report = api::run(*request, asked.how);
  return report ? deliver(*report, asked.output, *request) : fail(report.error());
}

void add_ranks(CLI::App& verb, Run& asked) {
  verb.add_option(
          "--ranks", asked.ranks.ranks,
          "Run on so many processes of this machine, each with its part; a program that is not split is split as "
          "`ridge shard` ranks first")
      ->type_name("P")
      ->check(whole_number(1, 256));
  verb.add_option("--mesh", asked.ranks.mesh, "Run on a rank for each device of this mesh")->type_name("X=2,Y=2");
  verb.add_flag("--spread", asked.ranks.spread,
                "With --ranks, of one product: every tensor lies once, evenly spread, on the best grid p1 x p2 x p3");
  verb.add_flag(
      "--in-turn", asked.ranks.in_turn,
      "With --ranks or --mesh and --on cuda: no product in chunks beside what moves, even where that is faster");
  verb.add_option("--trace", asked.trace,
                  "With --ranks or --mesh: write the last pass as a trace for ui.perfetto.dev, a track for each rank")
      ->type_name("FILE.json");
  verb.add_option("--patience", asked.patience,
                  "With --ranks or --mesh: how long a rank waits for another one before it ends all (default: 2 min)")
      ->type_name("TIME");
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  auto asked = std::make_shared<Run>();
  CLI::App* verb =
      app.add_subcommand("run", "Run a program on this CPU or a CUDA device, time it and check it against fp64");
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
  asked->verb = verb;
  add_request(*verb, asked->spelled);
  verb->add_option("--in", asked->in,
                   "Read an input from this file; the others are random: normal, weights divided by the root of what "
                   "they sum over")
      ->type_name("TENSOR=FILE.npy")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--out", asked->out, "Write a result into this file")
      ->type_name("TENSOR=FILE.npy")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--seed", asked->seed, "Seed of the random inputs (default 0)")->type_name("N");
  verb->add_option("--threads", asked->how.threads, "Threads (default: every core this process may use)")
      ->type_name("N")
      ->check(whole_number(1, 4096));
  verb->add_option("--runs", asked->how.passes,
                   "Run it so often (default: five times and 0.2 s at least); on cuda, so many replays of each graph")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000));
  verb->add_option("--time", asked->time, "Run it for so long at least: 2s, 500ms")->type_name("TIME");
  verb->add_option("--against", asked->against, "Run this program too, in turn, and say what it takes over the first")
      ->type_name("PROGRAM");
  const auto* tune =
      verb->add_flag(
              "--tune{8}", asked->tune,
              "On cuda: measure each product's best plans by the model, so many, keep the fastest in the cache and use "
              "it from then on; --tune=0: the model's choices, whatever is kept")
          ->type_name("[=N]")
          ->check(whole_number(0, 1000));
  add_ranks(*verb, *asked);
  verb->add_flag("--why", asked->spelled.why, "What each operation took above its roof, by causes that add up");
  add_no_fuse(*verb, asked->spelled);
  add_output(*verb, asked->output);
  verb->callback([asked, tune, &code] {
    asked->tunes = tune->count() > 0;
    code = perform(*asked);
  });
}

}  // namespace ridge::cli
