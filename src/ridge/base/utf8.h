// Where one character of UTF-8 ends: what a text from outside must pass before it is repeated in a message or in JSON.
//   character_bytes("é = 1") is 2;  character_bytes("\xC3(") is 0: the second byte continues nothing
// Source: RFC 3629, section 3.
#pragma once

#include <cstddef>
#include <string_view>

namespace ridge {

// Bytes of the character that the text begins with; 0 where it is empty or no valid character stands there (overlong
// forms, surrogates and values past U+10FFFF included).
std::size_t character_bytes(std::string_view text);

}  // namespace ridge
