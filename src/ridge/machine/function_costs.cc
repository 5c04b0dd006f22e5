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
  SourcedValue out{.value = 1, .source = "not on record", .read_on = {}, .origin = Origin::guessed};
  if (const SourcedValue* known = find_cost(machine, info)) {
    out = *known;
  } else if (machine.name == "cpu") {
    out.value = info.cpu_flops;
    out.source = "as on another CPU";
  } else if (machine.title.starts_with("NVIDIA")) {
    if (const SourcedValue* other = find_cost(machine_to_guess_from(), info)) out.value = other->value;
    out.source = std::string("as on ") + guessed_from;
  }
  out.value = std::max(std::round(out.value), 1.0);
  return out;
}

}  // namespace ridge
