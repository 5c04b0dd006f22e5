#include "ridge/api/training.h"

#include <fmt/format.h>

namespace ridge::api {
namespace {

constexpr std::uintptr_t array_alignment = 16;     // Bytes; kernels access arrays in vectors of this size
constexpr std::uintptr_t scratch_alignment = 256;  // Bytes, of the scratch memory

bool is_aligned(const void* data, std::uintptr_t alignment) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

}  // namespace

Status check_addresses(std::initializer_list<NamedAddress> arrays, const void* scratch, std::int64_t scratch_bytes) {
  for (const NamedAddress& each : arrays)
    if (each.is_required && !is_aligned(each.data, array_alignment))
      return input_error(
          fmt::format("expected '{}' to start at a multiple of {} bytes in device memory", each.name, array_alignment));
  if (scratch_bytes > 0 && !is_aligned(scratch, scratch_alignment))
    return input_error(fmt::format("expected {} B of scratch at a multiple of {}", scratch_bytes, scratch_alignment));
  return Done{};
}

}  // namespace ridge::api
