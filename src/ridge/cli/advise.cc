// ridge advise: what would make a program faster, by how much, and whether that comes true.
#include <memory>

#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/advice.h"

namespace ridge::cli {
namespace {

struct Asked {
  Spelled spelled;
  OutputForm form;
  RunRequest how;
  bool confirm = false;
  const CLI::App* verb = nullptr;
};

int perform(Asked& asked) {
  if (const Status sorted = sort_words(asked.spelled, "advise"); !sorted) return fail(sorted.error());
  if (!asked.confirm)
    if (const auto refused = refuse_without(*asked.verb, "--runs --threads", "--confirm")) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  asked.how.progress = progress_bar();
  const auto found = api::advise(*request, asked.confirm ? std::optional(asked.how) : std::nullopt);
  end_progress();
  return found ? print(asked.form, render_text(*found, style()), render_json(*found), "advice") : fail(found.error());
}

}  // namespace

void add_advise(CLI::App& app, int& code) {
  auto asked = std::make_shared<Asked>();
  CLI::App* verb = app.add_subcommand("advise", "What would make a program faster, by how much, and how to confirm it");
  verb->footer(
      "Examples:\n"
      "  ridge advise examples/mlp.ridge B=1\n"
      "  ridge advise examples/mlp.ridge B=1 --confirm\n"
      "  ridge advise examples/mlp.ridge --on h200 B=16 --json\n");
  asked->verb = verb;
  add_request(*verb, asked->spelled);
  add_no_fuse(*verb, asked->spelled);
  verb->add_flag("--confirm", asked->confirm, "Run what confirms each advice here, and say what came true");
  verb->add_option("--runs", asked->how.passes, "With --confirm: run each program so often")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000));
  verb->add_option("--threads", asked->how.threads, "With --confirm: threads (default: every core)")
      ->type_name("N")
      ->check(whole_number(1, 4096));
  add_form(*verb, asked->form, "ridge.advice/1");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
