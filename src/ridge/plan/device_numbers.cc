#include "ridge/plan/device_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ridge/ops/fitted.h"

namespace ridge {
namespace {

std::optional<double> find_number(const std::map<std::string, SourcedValue>& numbers, const std::string& key) {
  const auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : std::optional(found->second.value);
}

const MemoryLevel* find_l2(const Machine& machine) {
  const auto found = std::find_if(machine.memory.begin(), machine.memory.end(),
                                  [](const MemoryLevel& level) { return level.name == "l2"; });
  return found == machine.memory.end() || !found->capacity ? nullptr : &*found;
}

Error missing_error(const Machine& machine, const char* what) {
  return input_error(fmt::format("cannot plan for {}: no {} on record", machine.name, what),
                     "its machine file needs numbers.cores, numbers.clock_hz and memory.l2.capacity");
}

}  // namespace

Result<ops::DeviceNumbers> device_numbers(const Machine& machine) {
  if (machine.kernels != "sm90")
    return usage_error(fmt::format("plans need a Hopper GPU or this CPU; expected --on h100, h200, cuda "
                                   "or cpu, found '{}'",
                                   machine.name),
                       "ridge explain PROGRAM --on h200 --plan");
  const auto cores = find_number(machine.numbers, "cores"), clock = find_number(machine.numbers, "clock_hz");
  const MemoryLevel* const l2 = find_l2(machine);
  if (!cores) return missing_error(machine, "cores");
  if (!clock) return missing_error(machine, "clock");
  if (l2 == nullptr) return missing_error(machine, "L2");
  const ops::HopperRates& n = ops::hopper_rates();
  const auto fitted = [&](const char* key, double derived) {
    return find_number(machine.plan_numbers, key).value_or(derived);
  };
  ops::DeviceNumbers out;
  out.multiprocessors = static_cast<int>(*cores);
  out.clock_hz = fitted("clock_hz", n.clock_share * *clock);
  out.busy_clock_hz = fitted("busy_clock_hz", n.busy_clock_share * *clock);
  out.memory_bytes_per_s = fitted("memory_bytes_per_s", n.memory_share * machine.memory.front().bandwidth->value);
  out.l2_bytes_per_s = fitted("l2_bytes_per_s", n.l2_bytes_per_cycle * *cores * *clock);
  out.l2_bytes = static_cast<std::int64_t>(l2->capacity->value);
  out.launch_s = fitted("launch_s", n.launch_s);
  out.timed = !machine.plan_numbers.empty();
  return out;
}

std::string uncertainty_remark(const Machine& machine, const ops::DeviceNumbers& device) {
  if (device.timed) return "";
  return fmt::format(
      "no plans were timed on {}: its clocks and bandwidths are estimated from its peaks, so the interval is wider",
      machine.name);
}

}  // namespace ridge
