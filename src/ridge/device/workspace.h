// Device memory that the caller owns and that a call uses as scratch.
#pragma once

#include <cstddef>

namespace ridge::device {

struct DeviceWorkspace {
  void* data = nullptr;  // Aligned to 256 bytes.
  std::size_t bytes = 0;
  bool counters_zeroed = false;  // The first `counter_bytes` are zero; every call leaves them zero.
};
inline constexpr std::size_t counter_bytes = 64 * 1024;

}  // namespace ridge::device
