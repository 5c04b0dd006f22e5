// Device memory of another process on this machine, and flags by which devices signal each other. A flag is a 32-bit
// word in the receiver's memory. The sender sets it to 1 after its queued work, so the data is then readable; the
// receiver waits for 1 and resets it to 0. Stream memory operations do both, so no SM is needed. Flags are binary, so a
// captured graph can be replayed any number of times. The caller must not set a flag again before it was reset. Callers
// exchange memory handles between processes as bytes.
#pragma once

#include <array>
#include <span>

#include "ridge/device/device.h"

namespace ridge::device {

struct MemoryHandle {  // CUDA IPC handle of an allocation.
  std::array<std::byte, 64> bytes{};
};
Result<MemoryHandle> export_handle(const DeviceBuffer& memory);

class ImportedMemory {
 public:
  // Errors: the handle is of this process's own memory; the devices have no peer access.
  static Result<ImportedMemory> open(const MemoryHandle& handle);
  std::byte* data() const { return data_.get(); }

 private:
  explicit ImportedMemory(Handle<std::byte> data) : data_(std::move(data)) {}
  Handle<std::byte> data_;
};

using DeviceFlag = std::uint32_t;
Status set_flags(const Queue& queue, std::span<DeviceFlag* const> peer_flags);
// Makes later work on the queue wait until all of these flags are set, and resets them.
Status wait_and_reset_flags(const Queue& queue, std::span<DeviceFlag* const> own_flags);
// A flag that is reset after the wait, or a counter that kernels raise to `value` and that keeps its value.
struct AwaitedFlag {
  DeviceFlag* flag = nullptr;
  DeviceFlag value = 1;
  bool keeps_value = false;
};
// Sets and waits in one batch, which takes as long as one of them.
Status set_and_wait_flags(const Queue& queue, std::span<DeviceFlag* const> peer_flags,
                          std::span<const AwaitedFlag> own_flags);

}  // namespace ridge::device
