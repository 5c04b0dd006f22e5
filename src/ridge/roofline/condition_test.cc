// Evaluates the conditions and boundaries that are printed for missing sizes at random sizes, and compares them with
// the counts. Nothing here uses the solver.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ridge/roofline/testing/calculator.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/threshold.h"

namespace ridge {
namespace {

const std::vector<std::string> order{"B", "D", "F"};

// Returns up to four terms of coefficients and dimensions, each at most once per term; never 0.
Polynomial random_sum(testing::RandomProgram& random, int most) {
  Polynomial out;
  for (int i = 0, terms = 1 + random.below(most); i < terms; ++i) {
    std::vector<std::string> symbols;
    for (const std::string& dim : order)
      if (random.below(2)) symbols.push_back(dim);
    out += Polynomial::make_term(random.size(40), symbols);
  }
  return out;
}

struct Counts {
  Polynomial flops, bytes;
  double ridge;
  std::map<std::string, double> sizes;
  bool compute_bound(const std::string& dim, double size) const {
    std::map<std::string, double> at = sizes;
    at[dim] = size;
    return flops.evaluate_double(at) >= ridge * bytes.evaluate_double(at);
  }
};

bool holds(const std::string& condition, std::map<std::string, double> values) {
  const std::size_t greater = condition.find(" > ");
  EXPECT_NE(greater, std::string::npos) << condition;
  return testing::Calculator(condition.substr(0, greater), values).sum() >
         testing::Calculator(condition.substr(greater + 3), values).sum();
}

// If the condition holds, the limiter must change at the printed boundary. Otherwise no size may be compute-bound (for
// ">="), or the limiter may not change (for "<=").
void expect_matching_counts(const Counts& counts, const Threshold& t, const std::string& about) {
  std::map<std::string, double> values = counts.sizes;
  values["r"] = counts.ridge;
  if (!t.condition.empty() && !holds(t.condition, values)) {
    if (t.relation == Relation::at_least) {
      EXPECT_FALSE(counts.compute_bound(t.dim, 1e15)) << about;
    } else {
      EXPECT_TRUE(counts.compute_bound(t.dim, 1e15) || !counts.compute_bound(t.dim, 1e-15)) << about;
    }
    return;
  }
  const double boundary = testing::Calculator(t.exact, values).sum();
  const bool below = t.relation == Relation::at_most;
  if (boundary > 0 && std::isfinite(boundary)) {
    EXPECT_EQ(counts.compute_bound(t.dim, boundary * 0.999), below) << about << ", boundary " << boundary;
    EXPECT_EQ(counts.compute_bound(t.dim, boundary * 1.001), !below) << about << ", boundary " << boundary;
  }
  EXPECT_EQ(counts.compute_bound(t.dim, 1e15), !below) << about << ", boundary " << boundary;
}

TEST(Conditions, SayWhenAnUpperThresholdHolds) {
  const auto first = [](const Polynomial& flops, const Polynomial& bytes) {
    const Threshold t = find_thresholds({flops, bytes, {8, 1}}, {}, order).at(0);
    return fmt::format("{} {} {} if {}", t.dim, name(t.relation), t.exact, t.condition);
  };
  const Polynomial B = Polynomial::make_symbol("B"), D = Polynomial::make_symbol("D"), F = Polynomial::make_symbol("F");
  EXPECT_EQ(first(D * F, B * D + F), "B <= (D*F - r*F)/(r*D) if D > r");
  EXPECT_EQ(first(B * D + D * F, B * F), "B <= (D*F)/(r*F - D) if r*F > D");
  EXPECT_EQ(first(B * D, B * F + D), "B >= r*D/(D - r*F) if D > r*F");
}

TEST(Conditions, AgreeWithTheCountsAtRandomSizes) {
  std::map<Relation, int> seen;
  int held = 0, failed = 0;
  for (unsigned seed = 0; seed < testing::program_count(20000); ++seed) {
    testing::RandomProgram random(seed);
    Counts counts{
        random_sum(random, 2), random_sum(random, 4), static_cast<double>(random.size(300)) * std::sqrt(2), {}};
    for (const std::string& dim : order) counts.sizes[dim] = static_cast<double>(random.size(3000)) + 0.37;
    Bindings some;
    if (random.below(4) == 0) some["F"] = static_cast<std::int64_t>(counts.sizes["F"] = random.below(900) + 1);
    const RoofPair pair{counts.flops, counts.bytes, {counts.ridge, 1}};
    for (const Threshold& t : find_thresholds(pair, some, order)) {
      const std::string about =
          fmt::format("seed {}: {} FLOPs, {} bytes, r = {}: {} {} {} if {}, B = {}, D = {}, F = {}", seed,
                      counts.flops.to_string(order), counts.bytes.to_string(order), counts.ridge, t.dim,
                      name(t.relation), t.exact, t.condition, counts.sizes["B"], counts.sizes["D"], counts.sizes["F"]);
      ++seen[t.relation];
      if (t.relation == Relation::never || t.relation == Relation::always) {
        for (const double size : {1.0, 17.0, 1e6})
          EXPECT_EQ(counts.compute_bound(t.dim, size), t.relation == Relation::always) << about << " at " << size;
        continue;
      }
      if (t.value) continue;  // Solved in numbers: tested in property_test.cc
      ++(t.condition.empty() ? held : failed);
      expect_matching_counts(counts, t, about);
    }
  }
  EXPECT_GT(seen[Relation::at_least], 1000);
  EXPECT_GT(seen[Relation::at_most], 1000);
  EXPECT_GT(failed, 1000);
  EXPECT_GT(held, 100);
}

// A condition that no size decides is not printed.
TEST(Conditions, AreOmittedIfIndependentOfSizes) {
  const Polynomial b = Polynomial::make_symbol("B"), d = Polynomial::make_symbol("D");
  const std::vector<std::string> names{"B", "D"};
  const auto of = [&](const Polynomial& flops, const Polynomial& bytes) {
    for (const Threshold& t : find_thresholds({flops, bytes, {8, 1}}, {}, names))
      if (t.dim == "B") return std::string(name(t.relation)) + " " + t.exact + t.condition;
    return std::string("none");
  };
  EXPECT_EQ(of(b * d * 2, b * d + d * d), "never ");          // 2 > 8*1 does not hold
  EXPECT_EQ(of(b * d * 9, b * d + d * d), ">= r*D/(9 - r)");  // 9 > 8*1 does
}

}  // namespace
}  // namespace ridge
