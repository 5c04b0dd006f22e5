#include <fmt/format.h>

#include <memory>

#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

struct KernelsArgs {
  std::string name, dtype;
  bool sass = false, ptx = false;
  OutputFormat format;
};

int print_code(const KernelsArgs& args) {
  const char* const option = args.sass ? "--sass" : "--ptx";
  if (args.name.empty())
    return print_error(usage_error(fmt::format("expected a kernel's name with {}, found none", option),
                                   fmt::format("ridge kernels sm90_128x192x64_pingpong {}", option)));
  if (args.format.csv || args.format.md)
    return print_error(usage_error(
        fmt::format("expected {} as text or with --json, found {}", option, args.format.csv ? "--csv" : "--md")));
  const auto dtype = parse_dtype(args.dtype.empty() ? "bf16" : args.dtype);
  if (dtype != DType::bf16 && dtype != DType::f16)
    return print_error(usage_error(
        fmt::format("expected bf16 or f16, the dtypes of these kernels, found '{}'", args.dtype), "--dtype f16"));
  const auto code = api::read_kernel_code(args.name, args.sass ? CodeFormat::sass : CodeFormat::ptx, *dtype);
  if (!code) return print_error(code.error());
  return print_result(args.format.json ? render_kernel_json(*code) : code->text);
}

int run_kernels(const KernelsArgs& args) {
  if (args.sass || args.ptx) return print_code(args);
  if (!args.dtype.empty()) return print_error(usage_error("expected --dtype together with --sass or --ptx"));
  const auto kernels = api::find_kernels(args.name);
  if (!kernels) return print_error(kernels.error());
  return print_result(args.format, render_kernels_text(*kernels, text_style()), render_kernels_json(*kernels),
                      "kernels");
}

}  // namespace

void add_kernels(CLI::App& app, int& code) {
  auto args = std::make_shared<KernelsArgs>();
  CLI::App* verb = app.add_subcommand("kernels", "List the CUDA kernels of the planner, or print the code of one");
  verb->footer(
      "Examples:\n  ridge kernels\n  ridge kernels sm90_128x192x64 --json\n"
      "  ridge kernels sm90_128x192x64_pingpong --sass | less\n"
      "  ridge kernels sm90_128x192x64_pingpong --ptx --dtype f16\n");
  verb->add_option("NAME", args->name, "Name of a kernel, or part of it")->type_name("");
  auto* sass = verb->add_flag("--sass", args->sass, "Print its machine code (needs the CUDA toolkit's cuobjdump)");
  verb->add_flag("--ptx", args->ptx, "Print its PTX (needs the CUDA toolkit's cuobjdump)")->excludes(sass);
  verb->add_option("--dtype", args->dtype, "With --sass or --ptx: dtype of the kernel, bf16 (default) or f16")
      ->type_name("DTYPE");
  add_format_options(*verb, args->format, "ridge.kernels/2");
  verb->callback([args, &code] { code = run_kernels(*args); });
}

}  // namespace ridge::cli
