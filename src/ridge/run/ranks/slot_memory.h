// Device memory of a rank's slots.
#pragma once

#include <optional>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {

// One allocation for each stored slot; `address_of` returns null for the others.
class SlotMemory {
 public:
  static Result<SlotMemory> make(const RankProgram& rank_program);
  std::byte* address_of(int slot) const;
  const device::DeviceBuffer& allocation(int slot) const { return *memory_[slot]; }

 private:
  std::vector<std::optional<device::DeviceBuffer>> memory_;
};

}  // namespace ridge::ranks
