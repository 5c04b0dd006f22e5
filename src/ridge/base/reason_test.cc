#include "ridge/base/reason.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

Reason odd_reason(int x) {
  if (x % 2 == 0) return {};
  if (x < 0) return "negative";
  return "expected an even number, found " + std::to_string(x);
}

TEST(Reason, PossibleUnlessThereIsAText) {
  EXPECT_FALSE(odd_reason(2));
  EXPECT_FALSE(Reason(std::string()));
  ASSERT_TRUE(odd_reason(3));
  EXPECT_EQ(odd_reason(3).text(), "expected an even number, found 3");
  EXPECT_EQ(odd_reason(-1).text(), "negative");
}

TEST(ReasonDeathTest, TextNeedsAReason) { EXPECT_DEATH((void)Reason().text(), "there is no reason"); }

}  // namespace
}  // namespace ridge
