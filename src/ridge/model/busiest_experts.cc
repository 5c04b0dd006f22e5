#include "ridge/model/busiest_experts.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ridge::model {
namespace {

double log_binomial(std::int64_t n, std::int64_t k) {
  const auto log_factorial = [](std::int64_t x) { return std::lgamma(static_cast<double>(x) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

// Returns the probabilities that a token has 0, 1, … rows in a group.
std::vector<double> list_row_probabilities(const ExpertRouting& routing) {
  const std::int64_t group = routing.experts / routing.groups, others = routing.experts - group;
  std::vector<double> out;
  for (std::int64_t rows = 0; rows <= std::min(group, routing.per_token); ++rows) {
    const std::int64_t elsewhere = routing.per_token - rows;
    out.push_back(elsewhere > others ? 0
                                     : std::exp(log_binomial(group, rows) + log_binomial(others, elsewhere) -
                                                log_binomial(routing.experts, routing.per_token)));
  }
  return out;
}

}  // namespace

double bound_busiest_rows(const ExpertRouting& routing) {
  const auto tokens = static_cast<double>(routing.tokens);
  if (routing.groups == 1) return tokens * static_cast<double>(routing.per_token);
  const std::vector<double> probabilities = list_row_probabilities(routing);
  const auto bound = [&](double log_l) {
    const double l = std::exp(log_l);
    double moment = 0;
    for (std::size_t rows = 0; rows < probabilities.size(); ++rows)
      moment += probabilities[rows] * std::exp(l * static_cast<double>(rows));
    return (std::log(static_cast<double>(routing.groups)) + tokens * std::log(moment)) / l;
  };
  // The bound falls and then grows with l: ternary search over ln(l).
  double low = std::log(1e-6), high = std::log(50.0);
  constexpr int steps = 100;
  for (int i = 0; i < steps; ++i) {
    const double third = (high - low) / 3;
    if (bound(low + third) > bound(high - third))
      low += third;
    else
      high -= third;
  }
  const double most = tokens * static_cast<double>(probabilities.size() - 1);
  return std::min(most, bound((low + high) / 2));
}

}  // namespace ridge::model
