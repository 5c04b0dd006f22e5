// ridge trace: compares the times of a profiler's trace with the bounds of its operators.
#include <memory>

#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/trace/trace.h"

namespace ridge::cli {
namespace {

struct TraceArgs {
  std::string file, on;
  OutputFormat format;
  bool show_all = false;
};

Result<int> run_trace(const TraceArgs& args) {
  if (args.show_all && (args.format.json || args.format.csv || args.format.md))
    return usage_error("expected --all without --json, --csv and --md, which are always complete");
  RIDGE_TRY_STATUS(check_one_machine(args.on, "a trace"));
  const auto on = args.on.empty() ? std::nullopt : std::optional(MachineChoice(args.on));
  RIDGE_TRY(report, api::read_trace(args.file, on));
  TextStyle style = text_style();
  style.show_all = args.show_all;
  return print_result(args.format, render_text(report, style), render_json(report), "rows");
}

}  // namespace

void add_trace(CLI::App& app, int& code) {
  auto args = std::make_shared<TraceArgs>();
  CLI::App* verb = app.add_subcommand("trace", "Compare the kernels of a profiler's trace with their bounds");
  verb->footer(
      "Examples:\n"
      "  ridge trace trace.json --on h200\n"
      "  zcat trace.json.gz | ridge trace - --on h200 --csv\n");
  verb->add_option("FILE", args->file, "Trace in Chrome's JSON format, as torch.profiler writes it, or -")->required();
  verb->add_option("--on", args->on,
                   "Machine of the trace: a name, a .toml file, cpu or cuda (default without kernels: cpu)")
      ->type_name("MACHINE")
      ->check(name_of("a machine"));
  verb->add_flag("--all", args->show_all, "Print every row");
  add_format_options(*verb, args->format, "ridge.trace/1");
  group_options(*verb, {{"Trace", "FILE"}, {"Machine", "--on"}, {"What to show", "--all"}});
  verb->callback([args, &code] { code = exit_code_of(run_trace(*args)); });
}

}  // namespace ridge::cli
