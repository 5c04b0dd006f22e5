#include "ridge/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ridge {
namespace {

// Steps that record their numbers; the step `failing` fails.
struct Steps {
  int failing = 0;
  std::vector<int> run = {};

  Status run_step(int number) {
    run.push_back(number);
    if (number == failing) return input_error("step failed");
    return Done{};
  }
  Status run_three() {
    RIDGE_TRY_STATUS(run_step(1));
    RIDGE_TRY_STATUS(run_step(2));
    return run_step(3);
  }
};

TEST(Result, NoStepRunsAfterOneThatFails) {
  Steps steps{.failing = 1};
  const Status status = steps.run_three();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "step failed");
  EXPECT_EQ(steps.run, (std::vector<int>{1}));
}

TEST(Result, AllStepsRunIfNoneFails) {
  Steps steps;
  EXPECT_TRUE(steps.run_three());
  EXPECT_EQ(steps.run, (std::vector<int>{1, 2, 3}));
}

Result<std::unique_ptr<int>> make_number(bool fails) {
  if (fails) return input_error("no number");
  return std::make_unique<int>(7);
}
Result<std::unique_ptr<int>> make_larger_number(bool fails) {
  RIDGE_TRY(number, make_number(fails));
  ++*number;
  return number;
}

TEST(Result, TryDeclaresTheValueOrReturnsTheError) {
  EXPECT_EQ(**make_larger_number(false), 8);
  ASSERT_FALSE(make_larger_number(true));
  EXPECT_EQ(make_larger_number(true).error().message, "no number");
}

TEST(Result, TryCopiesTheValueOfAResultThatOthersHold) {
  const Result<std::vector<int>> held = std::vector<int>{1, 2};
  const auto read = [&]() -> Result<std::size_t> {
    RIDGE_TRY(numbers, held);
    numbers.clear();
    return numbers.size();
  };
  EXPECT_EQ(*read(), 0u);
  EXPECT_EQ(held->size(), 2u);
}

}  // namespace
}  // namespace ridge
