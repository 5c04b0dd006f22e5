#include <unistd.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

struct ProbeArgs {
  ProbeOptions options;
  std::string on = "cpu";
  OutputFormat format;
};

int run_probe(ProbeArgs& args) {
  if (const auto bar = progress_bar())
    args.options.progress = [bar](const ProbeProgress& p) {
      bar(static_cast<double>(p.done) / std::max(p.total, 1), std::string(p.quantity));
      return true;
    };
  else if (run_target_of(args.on) == RunTarget::cpu)
    (void)write_all(STDERR_FILENO, "ridge: measuring peaks and bandwidths; this takes less than a minute\n");
  const auto report = run_target_of(args.on) == RunTarget::cuda ? probe_cuda(args.options) : probe_cpu(args.options);
  if (!report) return print_error(report.error());
  end_progress();
  return print_result(args.format, render_probe_text(*report), render_probe_json(*report), "measured");
}

}  // namespace

void add_probe(CLI::App& app, int& code) {
  auto args = std::make_shared<ProbeArgs>();
  CLI::App* verb =
      app.add_subcommand("probe", "Measure the peaks and bandwidths of this machine in less than a minute");
  verb->footer("Examples:\n  ridge probe\n  ridge probe --on cuda --json\n");
  verb->add_option("--on", args->on, "Device to measure: cpu (default) or cuda")
      ->type_name("DEVICE")
      ->check(one_of({"cpu", "cuda"}));
  add_format_options(*verb, args->format, "ridge.probe/1");
  verb->callback([args, &code] { code = run_probe(*args); });
}

}  // namespace ridge::cli
