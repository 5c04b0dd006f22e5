#include "ridge/base/function.h"

#include <string>

namespace ridge {
namespace {

std::string format_number(double x) {
  const std::string text = std::to_string(x);
  const std::size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1);
}

// "`max(a, b)`, `max(x over D)`"
std::string format_forms(const FunctionInfo& f) {
  const std::string name(f.name);
  std::string out;
  if (f.arity > 0) out += "`" + name + "(" + std::string(f.arguments) + ")`";
  if (f.syntax == FunctionSyntax::power) out += ", `a " + std::string(f.symbol) + " b`";
  if (f.takes_dims) out += (out.empty() ? "`" : ", `") + name + "(x over D)`";
  return out;
}

std::string format_error_bound(double ulps) { return ulps == 0 ? "exact" : format_number(ulps) + " ulp"; }

}  // namespace

std::string format_function_table() {
  std::string out =
      "| | definition | FLOPs | error on a CPU | on CUDA | cost on a CPU |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const FunctionInfo& f : function_table) {
    if (f.description.empty()) continue;
    out += "| " + format_forms(f) + " | " + std::string(f.description) + " | " + std::to_string(f.flops) + " | ";
    const bool runs_over_dims = f.syntax == FunctionSyntax::over_dims;
    out += runs_over_dims ? "| | |\n"
                          : format_error_bound(f.ulps) + " | " + format_error_bound(f.device_ulps) + " | " +
                                std::to_string(f.cpu_flops) + " |\n";
  }
  return out;
}

}  // namespace ridge
