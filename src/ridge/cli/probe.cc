#include <unistd.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"

namespace ridge::cli {
namespace {

struct Probe {
  ProbeOptions options;
  std::string on = "cpu";
  OutputForm form;
};

int perform(Probe& asked) {
  if (const auto bar = progress_bar())
    asked.options.progress = [bar](const ProbeProgress& p) {
      bar(static_cast<double>(p.done) / std::max(p.of, 1), std::string(p.what));
      return true;
    };
  else if (where(asked.on) == Where::cpu)
    (void)write_all(STDERR_FILENO, "ridge: measuring peaks and bandwidths; under a minute\n");
  const auto report = where(asked.on) == Where::cuda ? probe_cuda(asked.options) : probe(asked.options);
  if (!report) return fail(report.error());
  end_progress();
  return print(asked.form, render_probe_text(*report), render_probe_json(*report), "measured");
}

}  // namespace

void add_probe(CLI::App& app, int& code) {
  auto asked = std::make_shared<Probe>();
  CLI::App* verb = app.add_subcommand("probe", "Measure this machine's peaks and bandwidth; under a minute");
  verb->footer("Examples:\n  ridge probe\n  ridge probe --on cuda --json\n");
  verb->add_option("--on", asked->on, "What to measure: cpu (default) or cuda")
      ->type_name("DEVICE")
      ->check(one_of({"cpu", "cuda"}));
  add_form(*verb, asked->form, "ridge.probe/1");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
