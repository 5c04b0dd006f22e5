// Placeholder pointer for calls that are only validated or planned. Never accessed.
#pragma once

#include <cstddef>

namespace ridge::ops {

inline std::byte* placeholder_address() {  // Aligned to 256 bytes
  static std::byte place alignas(256)[256];
  return place;
}

}  // namespace ridge::ops
