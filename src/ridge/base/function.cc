#include "ridge/base/function.h"

#include <string>

namespace ridge {
namespace {

std::string number(double x) {
  const std::string text = std::to_string(x);
  const std::size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1);
}

// "`max(a, b)`, `max(x over D)`"
std::string forms(const FunctionRow& f) {
  const std::string name(f.name);
  std::string out;
  if (f.arity > 0) out += "`" + name + "(" + std::string(f.arguments) + ")`";
  if (f.written == Written::power) out += ", `a " + std::string(f.sign) + " b`";
  if (f.along) out += (out.empty() ? "`" : ", `") + name + "(x over D)`";
  return out;
}

std::string error(double ulps) { return ulps == 0 ? "exact" : number(ulps) + " ulp"; }

}  // namespace

std::string functions_table() {
  std::string out =
      "| | what it is | FLOPs | error on a CPU | on CUDA | costs a CPU |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const FunctionRow& f : function_rows) {
    if (f.says.empty()) continue;
    out += "| " + forms(f) + " | " + std::string(f.says) + " | " + std::to_string(f.flops) + " | ";
    const bool whole_rows = f.written == Written::along;
    out += whole_rows ? "| | |\n"
                      : error(f.ulps) + " | " + error(f.device_ulps) + " | " + std::to_string(f.cpu_flops) + " |\n";
  }
  return out;
}

}  // namespace ridge
