#include <fmt/format.h>

#include <memory>

#include "ridge/cli/door.h"

namespace ridge::cli {
namespace {

struct Kernels {
  std::string name, dtype;
  bool sass = false, ptx = false;
  OutputForm form;
};

int print_code(const Kernels& asked) {
  const char* const option = asked.sass ? "--sass" : "--ptx";
  if (asked.name.empty())
    return fail(usage_error(fmt::format("expected a kernel's name with {}, found none", option),
                            fmt::format("ridge kernels sm90_128x192x64_pingpong {}", option)));
  if (asked.form.csv || asked.form.md)
    return fail(usage_error(
        fmt::format("expected {} as text or with --json, found {}", option, asked.form.csv ? "--csv" : "--md")));
  const auto in = dtype_from(asked.dtype.empty() ? "bf16" : asked.dtype);
  if (in != DType::bf16 && in != DType::f16)
    return fail(
        usage_error(fmt::format("expected bf16 or f16, of which the menu's kernels are made, found '{}'", asked.dtype),
                    "--dtype f16"));
  const auto code = api::kernel_code(asked.name, asked.sass ? Listing::sass : Listing::ptx, *in);
  if (!code) return fail(code.error());
  return print(asked.form.json ? render_kernel_json(*code) : code->text);
}

int perform(const Kernels& asked) {
  if (asked.sass || asked.ptx) return print_code(asked);
  if (!asked.dtype.empty()) return fail(usage_error("expected --dtype together with --sass or --ptx"));
  const auto menu = api::kernel_menu(asked.name);
  if (!menu) return fail(menu.error());
  return print(asked.form, render_kernels_text(*menu, style()), render_kernels_json(*menu), "kernels");
}

}  // namespace

void add_kernels(CLI::App& app, int& code) {
  auto asked = std::make_shared<Kernels>();
  CLI::App* verb = app.add_subcommand("kernels", "List the CUDA kernels that a plan chooses from, or print one's code");
  verb->footer(
      "Examples:\n  ridge kernels\n  ridge kernels sm90_128x192x64 --json\n"
      "  ridge kernels sm90_128x192x64_pingpong --sass | less\n"
      "  ridge kernels sm90_128x192x64_pingpong --ptx --dtype f16\n");
  verb->add_option("NAME", asked->name, "A kernel's name, or a part of it")->type_name("");
  auto* sass = verb->add_flag("--sass", asked->sass, "Print its machine code (asks the CUDA toolkit's cuobjdump)");
  verb->add_flag("--ptx", asked->ptx, "Print the PTX that it was made from (likewise)")->excludes(sass);
  verb->add_option("--dtype", asked->dtype, "With --sass or --ptx: of the kernel for bf16 (default) or f16")
      ->type_name("DTYPE");
  add_form(*verb, asked->form, "ridge.kernels/2");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
