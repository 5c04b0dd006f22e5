// ridge bench matmul: ours against the libraries, in one run.
#include <fmt/format.h>

#include <memory>

#include "ridge/cli/door.h"
#include "ridge/report/contest.h"

namespace ridge::cli {
namespace {

struct Bench {
  std::string what = "matmul", shapes = "data/cpu_shapes.csv";
  measure::ContestOptions options;
  bool json = false;
};

int perform(Bench& asked) {
  asked.options.progress = [bar = progress_bar()](std::size_t done, std::size_t of) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} shapes", done, of));
  };
  const auto contest = bench(asked.shapes, asked.options);
  end_progress();
  if (!contest) return fail(contest.error());
  const auto machine = find_machine("cpu");
  if (!machine) return fail(machine.error());
  return print(asked.json ? contest_json(*contest, *machine).dump(1) + "\n" : contest_text(*contest, *machine));
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  auto asked = std::make_shared<Bench>();
  CLI::App* verb = app.add_subcommand("bench", "Time products beside other libraries, in one run");
  verb->footer("Examples:\n  ridge bench matmul --against openblas,onednn --shapes data/cpu_shapes.csv --threads 2\n");
  verb->add_option("what", asked->what, "What to time")->check(CLI::IsMember({"matmul"}))->required();
  verb->add_option("--against", asked->options.libraries, "Libraries: openblas, onednn")->delimiter(',');
  verb->add_option("--shapes", asked->shapes, "CSV with the columns op,dtype,m,n,k and optionally out");
  verb->add_option("--threads", asked->options.threads, "Threads")->check(CLI::Range(1, 1024));
  verb->add_option("--rounds", asked->options.rounds, "Turns that everybody gets at every shape")
      ->check(CLI::Range(1, 1000));
  verb->add_flag("--json", asked->json, "JSON on stdout");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
