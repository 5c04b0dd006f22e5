#include "ridge/machine/function_costs.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ridge {
namespace {

constexpr const char* guessed_from = "h100";

const SourcedValue* find_cost(const Machine& machine, const FunctionInfo& info) {
  const auto found = machine.numbers.find("cost_" + std::string(info.name));
  return found == machine.numbers.end() ? nullptr : &found->second;
}

// Returns the numbers of the machine whose costs the others take.
const Machine& machine_to_guess_from() {
  static const Result<Machine> found = find_machine(guessed_from);
  static const Machine machine = found ? *found : Machine{};
  return machine;
}

}  // namespace

SourcedValue function_cost(const Machine& machine, Function function) {
  const FunctionInfo& info = function_info(function);
  SourcedValue out;
  if (const SourcedValue* known = find_cost(machine, info)) {
    out = *known;
  } else if (machine.name == "cpu") {
    out = {.value = static_cast<double>(info.cpu_flops), .source = "from another CPU", .read_on = "2026-11-25"};
    out.origin = Origin::guessed;
  } else if (const SourcedValue* other = find_cost(machine_to_guess_from(), info)) {
    out = *other;
    out.source = std::string("as on ") + guessed_from;
    out.origin = Origin::guessed;
  } else {
    out = {.value = 1, .source = "counted as 1", .read_on = {}, .origin = Origin::guessed};
  }
  out.value = std::max(std::round(out.value), 1.0);
  return out;
}

}  // namespace ridge
