#include "ridge/base/utf8.h"

namespace ridge {

std::size_t character_bytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t size = 2;
  if (lead >= 0xE0) size = 3;
  if (lead >= 0xF0) size = 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  unsigned value = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3F);
  }
  unsigned min_value = 0x10000;
  if (size == 2) min_value = 0x80;
  if (size == 3) min_value = 0x800;
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value < min_value || value > 0x10FFFF || surrogate ? 0 : size;
}

}  // namespace ridge
