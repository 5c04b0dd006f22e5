#include "ridge/measure/ranks/slot_memory.h"

#include "ridge/measure/ranks/reach.h"

namespace ridge::ranks {

namespace cuda = ops::cuda;

Result<SlotMemory> SlotMemory::make(const Part& part) {
  SlotMemory out;
  for (std::size_t s = 0; s < part.acts().slots.size(); ++s) {
    out.memory_.emplace_back();
    if (!part.lies_in_memory(static_cast<int>(s))) continue;
    const std::int64_t bytes = stored_bytes(part.acts().slots[s].dtype, words_in(part.block(static_cast<int>(s))));
    auto memory = shared_memory(bytes);
    if (!memory) return memory.error();
    out.memory_.back() = *std::move(memory);
  }
  return out;
}

std::byte* SlotMemory::at(int slot) const {
  const auto& memory = memory_[static_cast<std::size_t>(slot)];
  return memory ? memory->data() : nullptr;
}

}  // namespace ridge::ranks
