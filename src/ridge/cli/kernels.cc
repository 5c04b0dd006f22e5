// ridge kernels: lists the CUDA kernels of the planner and prints the code of one.
#include <fmt/format.h>

#include "ridge/base/operand_type.h"
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

Result<int> print_code(const KernelsArgs& args) {
  const char* const option = args.sass ? "--sass" : "--ptx";
  if (args.name.empty())
    return usage_error(fmt::format("expected a kernel's name with {}, found none", option),
                       fmt::format("ridge kernels sm90_128x192x64_pingpong {}", option));
  if (args.format.csv || args.format.md)
    return usage_error(
        fmt::format("expected {} as text or with --json, found {}", option, args.format.csv ? "--csv" : "--md"));
  const auto dtype = parse_dtype(args.dtype.empty() ? "bf16" : args.dtype);
  if (!dtype || !OperandDTypes::contains(*dtype))
    return usage_error(
        fmt::format("expected {}, the dtypes of these kernels, found '{}'", OperandDTypes::names(), args.dtype),
        "--dtype f16");
  RIDGE_TRY(code, api::read_kernel_code(args.name, args.sass ? CodeFormat::sass : CodeFormat::ptx, *dtype));
  return print_result(args.format.json ? render_kernel_json(code) : code.text);
}

}  // namespace

Result<int> run_kernels(KernelsArgs& args) {
  if (args.sass || args.ptx) return print_code(args);
  if (!args.dtype.empty()) return usage_error("expected --dtype together with --sass or --ptx");
  RIDGE_TRY(kernels, api::find_kernels(args.name));
  return print_result(args.format, render_kernels_text(kernels, text_style()), render_kernels_json(kernels), "kernels");
}

}  // namespace ridge::cli
