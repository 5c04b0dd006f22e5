#include <memory>

#include "ridge/cli/door.h"
#include "ridge/report/parts/tables.h"

namespace ridge::cli {
namespace {

struct Machines {
  std::string name;
  OutputForm form;
};

int print_several(const std::vector<Machine>& all, const OutputForm& form) {
  if (form.csv || form.md)
    return fail(usage_error("expected one machine with --csv and --md, or none for the catalog, found several"));
  if (form.json) return print(render_catalog_json(all));
  std::string out;
  for (const Machine& machine : all) out += (out.empty() ? "" : "\n") + render_machine_text(machine, style());
  return print(out);
}

int perform(const Machines& asked) {
  std::vector<MachineChoice> choices;
  if (!asked.name.empty())
    for (const std::string& name : names_in(asked.name)) choices.emplace_back(name);
  const auto found = machines(choices);
  if (!found) return fail(found.error());
  for (const Error& warning : found->warnings) (void)fail(warning);
  const std::vector<Machine>& all = found->machines;
  const OutputForm& form = asked.form;
  const std::vector<bool> left(7, false), right{false, true, true, true, true, true, false};
  if (asked.name.empty()) return form.json ? print(render_catalog_json(all)) : print(catalog_table(all), right, form);
  if (all.size() > 1) return print_several(all, form);
  if (form.json) return print(render_machine_json(all.front()));
  if (form.csv || form.md) return print(machine_table(all.front()), left, form);
  return print(render_machine_text(all.front(), style()));
}

}  // namespace

void add_machines(CLI::App& app, int& code) {
  auto asked = std::make_shared<Machines>();
  CLI::App* verb = app.add_subcommand("machines", "List the catalog, or one machine's numbers with their sources");
  verb->footer("Examples:\n  ridge machines\n  ridge machines h100 --json\n");
  verb->add_option("NAME", asked->name, "A catalog name, a .toml file, cpu or cuda; or several, a,b")->type_name("");
  add_form(*verb, asked->form, "ridge.machine/1");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
