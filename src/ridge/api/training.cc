#include "ridge/api/training.h"

#include <fmt/format.h>

namespace ridge::api {
namespace {

constexpr std::uintptr_t word = 16;   // bytes that kernels read at once
constexpr std::uintptr_t line = 256;  // bytes: where scratch begins

bool begins(const void* data, std::uintptr_t at) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % at == 0;
}

}  // namespace

Status check_addresses(std::initializer_list<NamedAddress> arrays, const void* scratch, std::int64_t scratch_bytes) {
  for (const NamedAddress& each : arrays)
    if (each.wanted && !begins(each.data, word))
      return input_error(
          fmt::format("expected '{}' to lie at a multiple of {} bytes of the device's memory", each.name, word));
  if (scratch_bytes > 0 && !begins(scratch, line))
    return input_error(fmt::format("expected {} B of scratch at a multiple of {}", scratch_bytes, line));
  return Done{};
}

Status launched(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

}  // namespace ridge::api
