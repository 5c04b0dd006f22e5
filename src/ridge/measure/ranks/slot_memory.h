// Device memory of a rank's slots.
#pragma once

#include <optional>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/measure/ranks/part.h"

namespace ridge::ranks {

// One allocation for each stored slot; `address_of` returns null for the others.
class SlotMemory {
 public:
  static Result<SlotMemory> make(const Part& part);
  std::byte* at(int slot) const;
  const ops::cuda::Memory& memory(int slot) const { return *memory_[static_cast<std::size_t>(slot)]; }

 private:
  std::vector<std::optional<ops::cuda::Memory>> memory_;
};

}  // namespace ridge::ranks
