// Tests the bound on the rows of the busiest group against all choices of few tokens.
#include "ridge/model/busiest_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ridge::model {
namespace {

// Returns the rows of each group for each choice of one token.
std::vector<std::vector<int>> list_choices(const ExpertRouting& routing) {
  std::vector<std::vector<int>> out;
  for (std::uint64_t chosen = 0; chosen < (std::uint64_t{1} << routing.experts); ++chosen) {
    if (__builtin_popcountll(chosen) != routing.per_token) continue;
    std::vector<int> rows(static_cast<std::size_t>(routing.groups));
    for (std::int64_t expert = 0; expert < routing.experts; ++expert)
      rows[static_cast<std::size_t>(expert / (routing.experts / routing.groups))] += (chosen >> expert) & 1;
    out.push_back(std::move(rows));
  }
  return out;
}

// Returns the sum of the busiest group's rows over all choices of the tokens that are left.
double sum_busiest(const std::vector<std::vector<int>>& choices, std::int64_t tokens, const std::vector<int>& rows) {
  if (tokens == 0) return *std::max_element(rows.begin(), rows.end());
  double sum = 0;
  for (const std::vector<int>& choice : choices) {
    std::vector<int> more = rows;
    for (std::size_t i = 0; i < rows.size(); ++i) more[i] += choice[i];
    sum += sum_busiest(choices, tokens - 1, more);
  }
  return sum;
}

TEST(BusiestExperts, AreBoundedForAllChoices) {
  for (const ExpertRouting& routing : {ExpertRouting{1, 4, 2, 2},
                                       {2, 4, 2, 2},
                                       {3, 4, 2, 4},
                                       {2, 8, 2, 4},
                                       {3, 8, 1, 8},
                                       {1, 12, 4, 3},
                                       {2, 8, 4, 2},
                                       {4, 4, 1, 4}}) {
    const auto choices = list_choices(routing);
    double all = 1;
    for (std::int64_t i = 0; i < routing.tokens; ++i) all *= static_cast<double>(choices.size());
    const double expected =
        sum_busiest(choices, routing.tokens, std::vector<int>(static_cast<std::size_t>(routing.groups))) / all;
    EXPECT_GE(bound_busiest_rows(routing), expected * (1 - 1e-9)) << routing.tokens << " " << routing.experts;
    EXPECT_LE(bound_busiest_rows(routing), 1.4 * expected) << routing.tokens << " " << routing.experts;
  }
}

TEST(BusiestExperts, AreThoseOfTheMeanForManyTokens) {
  EXPECT_DOUBLE_EQ(bound_busiest_rows({100, 8, 2, 1}), 200) << "one group has all rows";
  EXPECT_DOUBLE_EQ(bound_busiest_rows({1, 8, 2, 8}), 1);
  const double mean = 1e6 * 8 / 8;
  EXPECT_GT(bound_busiest_rows({1000000, 256, 8, 8}), mean);
  EXPECT_LT(bound_busiest_rows({1000000, 256, 8, 8}), 1.003 * mean);
}

}  // namespace
}  // namespace ridge::model
