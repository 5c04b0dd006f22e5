#include <memory>

#include "ridge/cli/output.h"
#include "ridge/report/parts/tables.h"

namespace ridge::cli {
namespace {

struct MachinesArgs {
  std::string name;
  OutputFormat format;
};

Result<int> print_machines(const std::vector<Machine>& all, const OutputFormat& format) {
  if (format.csv || format.md)
    return usage_error("expected one machine with --csv and --md, or none for the catalog, found several");
  if (format.json) return print_result(render_catalog_json(all));
  std::string out;
  for (const Machine& machine : all) out += (out.empty() ? "" : "\n") + render_machine_text(machine, text_style());
  return print_result(out);
}

Result<int> run_machines(const MachinesArgs& args) {
  std::vector<MachineChoice> choices;
  if (!args.name.empty())
    for (const std::string& name : split_machines(args.name)) choices.emplace_back(name);
  RIDGE_TRY(found, machines(choices));
  for (const Error& warning : found.warnings) (void)print_error(warning);
  const std::vector<Machine>& all = found.machines;
  const OutputFormat& format = args.format;
  const std::vector<bool> left_aligned(7, false), right_aligned{false, true, true, true, true, true, false};
  if (args.name.empty())
    return format.json ? print_result(render_catalog_json(all))
                       : print_result(catalog_table(all, number_style(format)), right_aligned, format);
  if (all.size() > 1) return print_machines(all, format);
  if (format.json) return print_result(render_machine_json(all.front()));
  if (format.csv || format.md) return print_result(machine_table(all.front()), left_aligned, format);
  return print_result(render_machine_text(all.front(), text_style()));
}

}  // namespace

void add_machines(CLI::App& app, int& code) {
  auto args = std::make_shared<MachinesArgs>();
  CLI::App* verb =
      app.add_subcommand("machines", "List the machine catalog, or a machine's numbers with their sources");
  verb->footer("Examples:\n  ridge machines\n  ridge machines h100 --json\n");
  verb->add_option("NAME", args->name, "Catalog name, .toml file, cpu or cuda; or several: a,b")->type_name("");
  add_format_options(*verb, args->format, "ridge.machine/1");
  verb->callback([args, &code] { code = exit_code_of(run_machines(*args)); });
}

}  // namespace ridge::cli
