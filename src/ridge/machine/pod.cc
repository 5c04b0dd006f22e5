#include "ridge/machine/pod.h"

#include <cmath>

namespace ridge {
namespace {

std::optional<std::int64_t> count_of(const Machine& machine, const std::string& key) {
  const auto found = machine.numbers.find(key);
  if (found == machine.numbers.end() || found->second.origin == Origin::guessed) return std::nullopt;
  return std::llround(found->second.value);
}

void scale_number(std::optional<SourcedValue>& number, double factor) {
  if (number) number->value *= factor;
}

ChipGroup total_of_chips(const Machine& machine, const std::string& what, std::int64_t chips) {
  ChipGroup out{.name = what, .chips = chips};
  const auto each = count_of(machine, "host_chips");
  if (each) out.hosts = (chips + *each - 1) / *each;
  if (const auto cores = count_of(machine, "cores")) out.cores = *cores * chips;
  if (!machine.peaks.empty()) {
    out.peak = machine.peaks.front();
    out.peak->rate.value *= static_cast<double>(chips);
  }
  if (!machine.memory.empty()) {
    out.memory = machine.memory.front();
    scale_number(out.memory->bandwidth, static_cast<double>(chips));
    scale_number(out.memory->capacity, static_cast<double>(chips));
  }
  return out;
}

}  // namespace

std::vector<ChipGroup> list_chip_groups(const Machine& machine) {
  std::vector<ChipGroup> out;
  for (const std::string what : {"host", "pod"})
    if (const auto chips = count_of(machine, what + "_chips")) out.push_back(total_of_chips(machine, what, *chips));
  return out;
}

std::optional<double> total_of_cores(const Machine& machine, const std::string& key) {
  const auto cores = count_of(machine, "cores"), each = count_of(machine, key);
  if (!cores || !each) return std::nullopt;
  return static_cast<double>(*cores) * static_cast<double>(*each);
}

}  // namespace ridge
