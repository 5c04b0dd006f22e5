// UTF-8 validation, applied to external text before it is printed or written as JSON.
//   character_bytes("é = 1") is 2;  character_bytes("\xC3(") is 0: the second byte is no continuation byte
// Source: RFC 3629, section 3.
#pragma once

#include <cstddef>
#include <string_view>

namespace ridge {

// Returns the length in bytes of the first character; 0 if the text is empty or the character is invalid (including
// overlong forms, surrogates and values above U+10FFFF).
std::size_t character_bytes(std::string_view text);

}  // namespace ridge
