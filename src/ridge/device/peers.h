// Memory of another process's device on this machine, and bells that devices ring for each other. A bell is a word in
// the memory of whoever hears it. Ringing writes 1 to it, behind all that was queued before, so that what it announces
// can be read; hearing waits for that and writes 0. Both are done by what reads the queue, so that no multiprocessor
// need be free, and nothing is counted, so that a recording can be replayed as often as one likes: a bell may ring
// again only after it was heard, which is for the callers to see to. Nothing here knows who the others are: names of
// memory travel as bytes.
#pragma once

#include <array>
#include <span>

#include "ridge/device/device.h"

namespace ridge::ops::cuda {

struct MemoryName {  // CUDA's handle of an allocation for other processes
  std::array<std::byte, 64> bytes{};
};
Result<MemoryName> name_of(const Memory& memory);

class PeerMemory {
 public:
  // Errors: a name of this process's own memory, devices that do not reach each other.
  static Result<PeerMemory> open(const MemoryName& name);
  std::byte* data() const { return data_.get(); }

 private:
  explicit PeerMemory(Handle<std::byte> data) : data_(std::move(data)) {}
  Handle<std::byte> data_;
};

using Bell = std::uint32_t;
Status ring(const Queue& queue, std::span<Bell* const> theirs);
// What is queued behind waits until all of these were rung.
Status hear(const Queue& queue, std::span<Bell* const> here);
// A bell, which may be rung again when it was heard; or a word that kernels count up to a value, which stays there.
struct Heard {
  Bell* word = nullptr;
  Bell value = 1;
  bool stays = false;
};
// Both, in the time of one.
Status ring_then_hear(const Queue& queue, std::span<Bell* const> theirs, std::span<const Heard> here);

}  // namespace ridge::ops::cuda
