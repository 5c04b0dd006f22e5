// Totals of a host or pod: peak, memory and cores of all chips. A TPU v5e pod of 256 chips, 8 per host: 32 hosts, 256
// cores, 50.43 PFLOP/s in bf16, 4.096 TB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/machine/machine.h"

namespace ridge {

struct ChipGroup {
  std::string name;                        // "host", "pod"
  std::int64_t chips = 1;                  // number of chips
  std::optional<std::int64_t> hosts = {};  // nullopt if the chips per host are unknown
  std::optional<std::int64_t> cores = {};  // nullopt if unknown
  std::optional<Peak> peak = {};           // first peak of the file, total of all chips
  std::optional<MemoryLevel> memory = {};  // first memory, total of all chips
};
// Returns a host and a pod, if the machine file gives their number of chips.
std::vector<ChipGroup> list_chip_groups(const Machine& machine);

// Returns the number of all cores together: lanes, or bytes of registers. nullopt if it or the number of cores is
// unknown or guessed.
std::optional<double> total_of_cores(const Machine& machine, const std::string& key);

}  // namespace ridge
