// Address for calls that are only validated or planned. The memory is never accessed.
#pragma once

#include <cstddef>

namespace ridge::ops {

inline std::byte* placeholder_address() {  // Aligned to 256 bytes
  static std::byte memory alignas(256)[256];
  return memory;
}

}  // namespace ridge::ops
