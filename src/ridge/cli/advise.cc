// ridge advise: changes that make a program faster, their predicted gains, and runs that confirm them.
#include <memory>

#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/advice.h"

namespace ridge::cli {
namespace {

struct AdviseArgs {
  RequestArgs request_args;
  OutputFormat format;
  RunRequest run_request;
  bool confirm = false;
  const CLI::App* verb = nullptr;
};

int run_advise(AdviseArgs& args) {
  if (const Status valid = read_positionals(args.request_args, "advise"); !valid) return print_error(valid.error());
  if (!args.confirm)
    if (const auto invalid = check_required_option(*args.verb, "--runs --threads", "--confirm"))
      return print_error(*invalid);
  const auto request = to_request(args.request_args);
  if (!request) return print_error(request.error());
  args.run_request.progress = progress_bar();
  const auto found = api::advise(*request, args.confirm ? std::optional(args.run_request) : std::nullopt);
  end_progress();
  return found ? print_result(args.format, render_text(*found, text_style()), render_json(*found), "advice")
               : print_error(found.error());
}

}  // namespace

void add_advise(CLI::App& app, int& code) {
  auto args = std::make_shared<AdviseArgs>();
  CLI::App* verb = app.add_subcommand("advise", "Suggest changes that make a program faster, with predicted gains");
  verb->footer(
      "Examples:\n"
      "  ridge advise examples/mlp.ridge B=1\n"
      "  ridge advise examples/mlp.ridge B=1 --confirm\n"
      "  ridge advise examples/mlp.ridge --on h200 B=16 --json\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  add_no_fuse_option(*verb, args->request_args);
  verb->add_flag("--confirm", args->confirm,
                 "Run each suggestion on this computer and compare its gain with the prediction");
  verb->add_option("--runs", args->run_request.passes, "With --confirm: number of runs of each program")
      ->type_name("N")
      ->check(whole_number_between(1, 1'000'000));
  verb->add_option("--threads", args->run_request.threads, "With --confirm: number of threads (default: every core)")
      ->type_name("N")
      ->check(whole_number_between(1, 4096));
  add_format_options(*verb, args->format, "ridge.advice/1");
  verb->callback([args, &code] { code = run_advise(*args); });
}

}  // namespace ridge::cli
