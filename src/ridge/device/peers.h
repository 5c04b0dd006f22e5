// Device memory of another process on this machine, and flags by which devices signal each other. A flag is a 32-bit
// word in the receiver's memory. The sender sets it to 1 after its queued work, so the data is then readable; the
// receiver waits for 1 and resets it to 0. Stream memory operations do both, so no SM is needed. Flags are binary, so a
// captured graph can be replayed any number of times. The caller must not set a flag again before it was reset. Callers
// exchange memory handles between processes as bytes.
#pragma once

#include <array>
#include <span>

#include "ridge/device/device.h"

namespace ridge::ops::cuda {

struct MemoryName {  // CUDA IPC handle of an allocation.
  std::array<std::byte, 64> bytes{};
};
Result<MemoryName> name_of(const Memory& memory);

class PeerMemory {
 public:
  // Errors: the handle is of this process's own memory; the devices have no peer access.
  static Result<PeerMemory> open(const MemoryName& name);
  std::byte* data() const { return data_.get(); }

 private:
  explicit PeerMemory(Handle<std::byte> data) : data_(std::move(data)) {}
  Handle<std::byte> data_;
};

using Bell = std::uint32_t;
Status ring(const Queue& queue, std::span<Bell* const> theirs);
// Makes later work on the queue wait until all of these flags are set, and resets them.
Status hear(const Queue& queue, std::span<Bell* const> here);
// A flag that is reset after the wait, or a counter that kernels raise to `value` and that keeps its value.
struct Heard {
  Bell* word = nullptr;
  Bell value = 1;
  bool stays = false;
};
// Sets and waits in one batch, which takes as long as one of them.
Status ring_then_hear(const Queue& queue, std::span<Bell* const> theirs, std::span<const Heard> here);

}  // namespace ridge::ops::cuda
