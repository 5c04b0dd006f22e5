// Memory of another process's device on this machine, and bells that devices ring for each other. A bell is two counts:
// how often it was rung, in memory that the ringer reaches, and how often it was heard. A ring is seen after all that
// was queued before it, so that what it announces can be read; nothing is sent but the count, so that a recording can
// be replayed as often as one likes. Nothing here knows who the others are: names of memory travel as bytes.
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

using Count = std::uint32_t;
inline constexpr std::size_t most_bells = 32;  // of one call
// Rings each of these bells once: adds one to `rung`, of this device, and writes the sum to `theirs`.
struct RungBell {
  Count* rung = nullptr;
  Count* theirs = nullptr;
};
Status ring(const Queue& queue, std::span<const RungBell> bells);
// What is queued behind waits until each of these was rung once more than it was heard.
struct HeardBell {
  const Count* rung = nullptr;
  Count* heard = nullptr;
};
Status hear(const Queue& queue, std::span<const HeardBell> bells);

}  // namespace ridge::ops::cuda
