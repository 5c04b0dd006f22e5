#include "ridge/base/text.h"

#include <gtest/gtest.h>

namespace ridge {

TEST(Text, WritesFourDigitsAndAPrefix) {
  EXPECT_EQ(engineering(2147483648.0, "FLOP"), "2.147 GFLOP");
  EXPECT_EQ(engineering(402653184.0, "B"), "402.7 MB");
  EXPECT_EQ(engineering(1.0111e-3, "s"), "1.011 ms");
  EXPECT_EQ(engineering(999.96e9, "B/s"), "1.000 TB/s");
  EXPECT_EQ(engineering(12, "B"), "12 B");
  EXPECT_EQ(engineering(0, "s"), "0 s");
  EXPECT_EQ(engineering(3e-15, "s"), "0.003 ps");
}

TEST(Text, NeverRoundsAwayDigitsBeforeThePoint) {
  EXPECT_EQ(significant(255.5364), "255.5");
  EXPECT_EQ(significant(98900.3), "98900");
  EXPECT_EQ(significant(0.0123456), "0.01235");
  EXPECT_EQ(significant(8), "8");
  EXPECT_EQ(significant(1.5e21), "1.5e+21");
  EXPECT_EQ(grouped(2147483648), "2 147 483 648");
  EXPECT_EQ(grouped(-1234), "-1 234");
  EXPECT_EQ(grouped(999), "999");
}

TEST(Text, AlignsByCharactersNotBytes) {
  EXPECT_EQ(aligned({{"op", "n"}, {"é", "10"}}, {false, true}), "op   n\né   10\n");
}

TEST(Text, FindsTheNearMiss) {
  EXPECT_EQ(nearest("explian", {"run", "explain", "probe"}), "explain");
  EXPECT_EQ(nearest("prob", {"run", "explain", "probe"}), "probe");
  EXPECT_EQ(nearest("bake", {"run", "explain", "probe"}), "");
  EXPECT_EQ(nearest(std::string(1000, 'x'), {"run"}), "");
}

TEST(Text, PrintableLeavesNoControlCharacterAndNoLongLine) {
  EXPECT_EQ(printable("a\tb\r\x1b[1m\xff\xC3\xA9"), "a\tb??[1m?\xC3\xA9");
  EXPECT_EQ(printable(std::string(400, 'x')).size(), 400u);
  EXPECT_EQ(printable(std::string(401, 'x')), "");
}

TEST(Text, ShortenedCutsBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 4), "\xC3\xA9...");
  EXPECT_EQ(shortened("a\xff\xC3", 6), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(shortened("", 3), "");
}

}  // namespace ridge
