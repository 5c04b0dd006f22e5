// Rows on the busiest of several groups of chips that divide whole experts. Each token chooses `per_token` of the
// experts at random, independent of other tokens, so that a group of g of X experts gets a hypergeometric number of a
// token's rows. Few tokens are distributed unevenly: one token with 2 of 8 experts on 8 chips gives 1 row to the
// busiest chip, where the mean is 1/4.
#pragma once

#include <cstdint>

namespace ridge::model {

struct ExpertRouting {
  std::int64_t tokens = 1, experts = 1, per_token = 1;
  std::int64_t groups = 1;  // Divides `experts`
};

// Returns an upper bound on the expected rows of the busiest group: the least over l > 0 of
//   (ln(groups) + tokens * ln(E[exp(l * rows of a token in a group)])) / l
// by Jensen's inequality, since exp(l * max) is at most the sum over the groups (Boucheron, Lugosi, Massart 2013,
// "Concentration Inequalities", section 2.5). At most all rows that a group can get. It exceeds the mean by about
// sqrt(2 ln(groups) * tokens * variance).
double bound_busiest_rows(const ExpertRouting& routing);

}  // namespace ridge::model
