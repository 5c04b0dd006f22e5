#include "ridge/run/ranks/slot_memory.h"

#include "ridge/run/ranks/peer_memory.h"

namespace ridge::ranks {

Result<SlotMemory> SlotMemory::make(const RankProgram& rank_program) {
  SlotMemory out;
  for (std::size_t s = 0; s < rank_program.schedule().slots.size(); ++s) {
    out.memory_.emplace_back();
    if (!rank_program.is_stored(static_cast<int>(s))) continue;
    const std::int64_t bytes =
        stored_bytes(rank_program.schedule().slots[s].dtype, count_words(rank_program.slot_block(static_cast<int>(s))));
    RIDGE_TRY(memory, allocate_exportable_memory(bytes));
    out.memory_.back() = std::move(memory);
  }
  return out;
}

std::byte* SlotMemory::address_of(int slot) const {
  const auto& memory = memory_[slot];
  return memory ? memory->data() : nullptr;
}

}  // namespace ridge::ranks
