#include "ridge/base/utf8.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(CharacterBytes, CountsOneToFourBytes) {
  EXPECT_EQ(character_bytes("a"), 1u);
  EXPECT_EQ(character_bytes("\xC3\xA9 = 1"), 2u);
  EXPECT_EQ(character_bytes("\xE2\x86\x92"), 3u);
  EXPECT_EQ(character_bytes("\xF0\x9F\x98\x80"), 4u);
  EXPECT_EQ(character_bytes("\xF4\x8F\xBF\xBF"), 4u);  // U+10FFFF
}

TEST(CharacterBytes, IsZeroForInvalidCharacters) {
  for (const std::string_view text : {
           "", "\x80", "\xC3", "\xC3(", "\xE2\x86", "\xFF", "\xC0\x80", "\xE0\x80\x80", "\xF0\x80\x80\x80",  // overlong
           "\xED\xA0\x80",      // a surrogate
           "\xF4\x90\x80\x80",  // past U+10FFFF
       })
    EXPECT_EQ(character_bytes(text), 0u) << text.size();
}

}  // namespace
}  // namespace ridge
