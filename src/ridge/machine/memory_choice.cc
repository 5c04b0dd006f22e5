#include "ridge/machine/memory_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge {
namespace {

bool move_to_front(Machine& machine, const std::string& name) {
  const auto level =
      std::find_if(machine.memory.begin(), machine.memory.end(), [&](const MemoryLevel& l) { return l.name == name; });
  if (level != machine.memory.end() && level->bandwidth) {
    std::rotate(machine.memory.begin(), level, level + 1);
    return true;
  }
  const auto link =
      std::find_if(machine.links.begin(), machine.links.end(), [&](const Link& l) { return l.name == name; });
  if (link == machine.links.end()) return false;
  machine.memory.insert(machine.memory.begin(), {.name = name, .bandwidth = link->bandwidth, .capacity = {}});
  return true;
}

Error unknown_memory_error(const Machine& machine, const std::string& found) {
  std::vector<std::string> names;
  for (const MemoryLevel& level : machine.memory)
    if (level.bandwidth) names.push_back(level.name);
  for (const Link& link : machine.links) names.push_back(link.name);
  return usage_error(
      fmt::format("expected a rate in B/s, or a memory or link of {} with a rate after --memory, found '{}'",
                  machine.name, found),
      names.empty() ? "--memory 1.5e10" : fmt::format("it has {}", fmt::join(names, ", ")));
}

}  // namespace

Result<Machine> with_memory(Machine machine, const LinkChoice& memory) {
  const ByteRate* rate = std::get_if<ByteRate>(&memory);
  if (rate == nullptr) {
    const std::string& name = std::get<std::string>(memory);
    return move_to_front(machine, name) ? Result<Machine>(std::move(machine)) : unknown_memory_error(machine, name);
  }
  if (!(rate->value >= 1e-30 && rate->value <= 1e30))
    return unknown_memory_error(machine, fmt::format("{}", rate->value));
  SourcedValue given;
  given.value = rate->value;
  given.source = "--memory";
  machine.memory.insert(machine.memory.begin(), {.name = "memory", .bandwidth = given, .capacity = {}});
  return machine;
}

}  // namespace ridge
