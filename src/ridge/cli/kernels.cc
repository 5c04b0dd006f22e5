#include <memory>

#include "ridge/cli/door.h"

namespace ridge::cli {
namespace {

struct Kernels {
  std::string name;
  Form form;
};

int perform(const Kernels& asked) {
  const auto menu = kernel_menu(asked.name);
  if (!menu) return fail(menu.error());
  return print(asked.form, render_kernels_text(*menu, style()), render_kernels_json(*menu), "kernels");
}

}  // namespace

void add_kernels(CLI::App& app, int& code) {
  auto asked = std::make_shared<Kernels>();
  CLI::App* verb = app.add_subcommand("kernels", "List the CUDA kernels that a plan chooses from");
  verb->footer("Examples:\n  ridge kernels\n  ridge kernels sm90_128x192x64 --json\n");
  verb->add_option("NAME", asked->name, "A kernel's name, or a part of it")->type_name("");
  add_form(*verb, asked->form, "ridge.kernels/1");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
