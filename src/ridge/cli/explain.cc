#include <memory>

#include "ridge/cli/door.h"

namespace ridge::cli {
namespace {

struct Explain {
  Request request;
  Output output;
  std::string table, library;
};

int explain_rows(const Explain& asked) {
  if (!asked.output.svg.empty() || asked.request.flops || asked.request.bytes)
    return fail(usage_error("expected --table without --svg, --flops and --bytes"));
  const auto reports = explain_table(asked.request, asked.table);
  if (!reports) return fail(reports.error());
  std::string lines;
  for (const Report& report : *reports) lines += render_json(report, true);
  return print(lines);
}

int perform(Explain& asked) {
  if (!asked.library.empty() && !asked.request.plan)
    return fail(usage_error("expected --library together with --plan"));
  if (asked.library == "cublaslt") asked.request.library = Library::cublaslt;
  if (!asked.table.empty()) return explain_rows(asked);
  const auto report = explain(asked.request);
  return report ? deliver(*report, asked.output) : fail(report.error());
}

}  // namespace

void add_explain(CLI::App& app, int& code) {
  auto asked = std::make_shared<Explain>();
  CLI::App* verb = app.add_subcommand("explain", "Count a program's work and say what binds it on a machine");
  verb->footer(
      "Examples:\n"
      "  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e -d B=512 -d D=8192 -d F=8192\n"
      "  ridge explain examples/mlp.ridge --on h100 --svg mlp.svg\n"
      "  ridge explain examples/mlp.ridge --on h200 --plan\n"
      "  ridge explain --flops 1e12 --bytes 1e9 --on h100\n");
  add_request(*verb, asked->request, false);
  verb->add_option("--flops", asked->request.flops, "Bare FLOPs instead of a program")->type_name("X");
  verb->add_option("--bytes", asked->request.bytes, "Bare bytes, with --flops")->type_name("Y");
  verb->add_option("--table", asked->table, "CSV of dimension values: one line of JSON for each row")
      ->type_name("FILE.csv");
  verb->add_flag("--plan", asked->request.plan, "What would run on --on h200: tile, stages, time, and what lost");
  verb->add_option("--library", asked->library, "Whose kernels --plan is about: ridge (default) or cublaslt")
      ->check(CLI::IsMember({"ridge", "cublaslt"}));
  add_output(*verb, asked->output);
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
