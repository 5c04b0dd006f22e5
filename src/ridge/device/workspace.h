// Memory of a device that the caller owns and a call may use beside its operands.
#pragma once

#include <cstddef>

namespace ridge::ops::cuda {

struct Workspace {
  void* data = nullptr;  // at a multiple of 256 bytes
  std::size_t bytes = 0;
  bool prepared = false;  // its first counter_bytes were zero before its first use; every call leaves them zero
};
inline constexpr std::size_t counter_bytes = 64 * 1024;

}  // namespace ridge::ops::cuda
