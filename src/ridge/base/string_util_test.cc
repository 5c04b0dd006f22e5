#include "ridge/base/string_util.h"

#include <gtest/gtest.h>

namespace ridge {

TEST(Text, WritesFourDigitsAndAPrefix) {
  EXPECT_EQ(format_with_prefix(2147483648.0, "FLOP"), "2.147 GFLOP");
  EXPECT_EQ(format_with_prefix(402653184.0, "B"), "402.7 MB");
  EXPECT_EQ(format_with_prefix(1.0111e-3, "s"), "1.011 ms");
  EXPECT_EQ(format_with_prefix(999.96e9, "B/s"), "1.000 TB/s");
  EXPECT_EQ(format_with_prefix(12, "B"), "12 B");
  EXPECT_EQ(format_with_prefix(0, "s"), "0 s");
  EXPECT_EQ(format_with_prefix(3e-15, "s"), "0.003 ps");
}

TEST(Text, NeverRoundsAwayDigitsBeforeThePoint) {
  EXPECT_EQ(format_significant(255.5364), "255.5");
  EXPECT_EQ(format_significant(98900.3), "98900");
  EXPECT_EQ(format_significant(0.0123456), "0.01235");
  EXPECT_EQ(format_significant(8), "8");
  EXPECT_EQ(format_significant(1.5e21), "1.5e+21");
  EXPECT_EQ(group_digits(2147483648), "2 147 483 648");
  EXPECT_EQ(group_digits(-1234), "-1 234");
  EXPECT_EQ(group_digits(999), "999");
}

TEST(Text, trims_blanks_at_both_ends_only) {
  EXPECT_EQ(trim_blanks(" \t a b\r"), "a b");
  EXPECT_EQ(trim_blanks(" \t"), "");
  EXPECT_EQ(trim_blanks(""), "");
}

TEST(Text, lower_case_changes_ascii_letters_only) { EXPECT_EQ(to_lower_case("H100 SXM é"), "h100 sxm é"); }

TEST(Text, AlignsByCharactersNotBytes) {
  EXPECT_EQ(align_columns({{"op", "n"}, {"é", "10"}}, {false, true}), "op   n\né   10\n");
  EXPECT_EQ(align_columns({{"op", "n"}, {"é", "10"}}, {}, "|"), "op|n\né |10\n");
}

TEST(Text, FindsTheNearestCandidate) {
  EXPECT_EQ(find_nearest("explian", {"run", "explain", "probe"}), "explain");
  EXPECT_EQ(find_nearest("prob", {"run", "explain", "probe"}), "probe");
  EXPECT_EQ(find_nearest("bake", {"run", "explain", "probe"}), "");
  EXPECT_EQ(find_nearest(std::string(1000, 'x'), {"run"}), "");
}

TEST(Text, PrintableLinesHaveNoControlCharactersAndAreShort) {
  EXPECT_EQ(make_printable("a\tb\r\x1b[1m\xff\xC3\xA9"), "a\tb??[1m?\xC3\xA9");
  EXPECT_EQ(make_printable(std::string(400, 'x')).size(), 400u);
  EXPECT_EQ(make_printable(std::string(401, 'x')), "");
}

TEST(Text, TruncatesBetweenCharacters) {
  EXPECT_EQ(truncate_text("abcdef", 6), "abcdef");
  EXPECT_EQ(truncate_text("abcdefg", 6), "abc...");
  EXPECT_EQ(truncate_text("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 4), "\xC3\xA9...");
  EXPECT_EQ(truncate_text("a\xff\xC3", 6), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(truncate_text("", 3), "");
}

}  // namespace ridge
