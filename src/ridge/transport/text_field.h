// Texts in memory of a fixed size, which ranks send or share.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace ridge::transport {

// Copies a text and a final zero into `to`, which is not empty; a longer text is truncated.
inline void copy_truncated(const std::string& text, std::span<char> to) {
  const std::size_t count = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), count);
  to[count] = '\0';
}
// Returns the text before the first zero, or all characters if there is none.
inline std::string read_text(std::span<const char> from) { return {from.data(), strnlen(from.data(), from.size())}; }

}  // namespace ridge::transport
