// What many chips of a machine come to together: its peaks, its memory, its cores, times how many there are. A TPU v5e
// pod of 256 chips, 8 a host: 32 hosts, 256 cores, 50.43 PFLOP/s in bf16, 4.096 TB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/machine/machine.h"

namespace ridge {

struct Chips {
  std::string what;                        // "host", "pod"
  std::int64_t chips = 1;                  // so many
  std::optional<std::int64_t> hosts = {};  // whose they are; null: how many a host has is not on record
  std::optional<std::int64_t> cores = {};  // null: not on record
  std::optional<Peak> peak = {};           // the first one of the file, of all of them
  std::optional<MemoryLevel> memory = {};  // the first one, of all of them
};
// A host and a pod, where the machine's file says how many chips they have.
std::vector<Chips> chips_together(const Machine& machine);

// f32 operations that all cores start in a cycle; null: cores or lanes are not on record.
std::optional<std::int64_t> all_lanes(const Machine& machine);

}  // namespace ridge
