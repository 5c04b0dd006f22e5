// Device memory that the caller owns and that a call uses as scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/base/result.h"

namespace ridge::device {

struct DeviceWorkspace {
  void* data = nullptr;  // Aligned to 256 bytes.
  std::size_t bytes = 0;
  bool counters_zeroed = false;  // The first `counter_bytes` are zero; every call leaves them zero.
};
inline constexpr std::size_t counter_bytes = 64 * 1024;

// Errors: the workspace has fewer bytes than a call needs, or a wrong alignment.
inline Status check_workspace(const DeviceWorkspace& workspace, std::size_t needed_bytes) {
  if (needed_bytes > workspace.bytes)
    return input_error("workspace: expected " + std::to_string(needed_bytes) + " bytes, found " +
                       std::to_string(workspace.bytes));
  if (needed_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace.data) % 256 != 0)
    return input_error("workspace: expected a multiple of 256 as its address");
  return Done{};
}

}  // namespace ridge::device
