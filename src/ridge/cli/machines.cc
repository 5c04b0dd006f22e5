#include <memory>

#include "ridge/cli/door.h"

namespace ridge::cli {
namespace {

struct Machines {
  std::string name;
  bool json = false;
};

int perform(const Machines& asked) {
  const auto found = machines(asked.name.empty() ? std::vector<std::string>{} : std::vector{asked.name});
  if (!found) return fail(found.error());
  for (const Error& warning : found->warnings) (void)fail(warning);
  const std::vector<Machine>& all = found->machines;
  if (asked.name.empty()) return print(asked.json ? render_catalog_json(all) : render_catalog_text(all, style()));
  return print(asked.json ? render_machine_json(all.front()) : render_machine_text(all.front(), style()));
}

}  // namespace

void add_machines(CLI::App& app, int& code) {
  auto asked = std::make_shared<Machines>();
  CLI::App* verb = app.add_subcommand("machines", "List the catalog, or one machine's numbers with their sources");
  verb->footer("Examples:\n  ridge machines\n  ridge machines h100 --json\n");
  verb->add_option("NAME", asked->name, "A catalog name, a .toml file, cpu or cuda")->type_name("");
  verb->add_flag("--json", asked->json, "Print JSON instead of text");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
