// Compares the counts of regions with loops over all indices.
#include "ridge/roofline/regions/region.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "ridge/roofline/testing/random_program.h"

namespace ridge {
namespace {

using Index = std::map<std::string, std::int64_t>;

IndexSum index_sum(std::map<std::string, Rational> indices, Polynomial rest = 0) {
  return {.indices = std::move(indices), .rest = std::move(rest)};
}

Formula at_most(const std::string& a, const std::string& b, std::int64_t shift = 0) {
  return Formula::at_least_zero(index_sum({{b, 1}, {a, -1}}, shift));
}

std::int64_t evaluate(const IndexSum& sum, const Index& at, const CountedRegion& region, const Bindings& sizes) {
  std::int64_t out = *sum.rest.evaluate(sizes);
  for (const auto& [v, c] : sum.indices) out += c.numerator() * at.at(v);
  for (const auto& [v, c] : sum.sequences) {
    const auto bound = region.region.bound().find(v);
    std::int64_t number = 0, end = 0;
    for (const std::int64_t length : region.sequences.at(bound == region.region.bound().end() ? v : bound->second))
      number += (end += length) <= at.at(v);
    out += c.numerator() * number;
  }
  for (const IndexSum::Quotient& q : sum.quotients)
    out += q.coefficient.numerator() *
           static_cast<std::int64_t>(std::floor(static_cast<double>(evaluate(*q.dividend, at, region, sizes)) /
                                                static_cast<double>(q.divisor)));
  return out;
}

bool evaluate(const Formula& formula, const Index& at, const CountedRegion& region, const Bindings& sizes) {
  const auto holds = [&](const Formula& part) { return evaluate(part, at, region, sizes); };
  switch (formula.kind()) {
    case Formula::Kind::all: return true;
    case Formula::Kind::none: return false;
    case Formula::Kind::at_least_zero: return evaluate(formula.sum(), at, region, sizes) >= 0;
    case Formula::Kind::conjunction: return std::all_of(formula.parts().begin(), formula.parts().end(), holds);
    case Formula::Kind::disjunction: return std::any_of(formula.parts().begin(), formula.parts().end(), holds);
  }
  return false;
}

// Counts by visiting every index of every variable.
std::int64_t count_by_loop(const CountedRegion& region, const Bindings& sizes) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& dim : region.dims) variables.emplace_back(dim, dim);
  for (const auto& each : region.region.bound()) variables.push_back(each);
  std::set<std::vector<std::int64_t>> found;
  Index at;
  const std::function<void(std::size_t)> loop = [&](std::size_t v) {
    if (v < variables.size()) {
      for (at[variables[v].first] = 0; at[variables[v].first] < sizes.at(variables[v].second); ++at[variables[v].first])
        loop(v + 1);
      return;
    }
    if (!evaluate(region.region.formula(), at, region, sizes)) return;
    std::vector<std::int64_t> tuple;
    for (const std::string& dim : region.dims) tuple.push_back(at[dim]);
    found.insert(tuple);
  };
  loop(0);
  return static_cast<std::int64_t>(found.size());
}

IndexSum random_sum(testing::RandomProgram& random, const std::vector<std::string>& variables, int depth) {
  IndexSum out{.rest = random.below(13) - 6};
  for (const std::string& v : variables)
    if (const int c = random.below(5) - 2; c != 0) out.indices[v] = c;
  if (random.below(4) == 0) out.rest += Polynomial::make_symbol("S");
  if (depth > 0 && random.below(3) == 0)
    out = out.plus(round_down(random_sum(random, variables, depth - 1).times(Rational(1, 2 + random.below(3)))),
                   random.below(2) ? 1 : -1);
  if (random.below(12) == 0) out.sequences = {{"S", 1}, {"T", -1}};
  return out;
}

Formula random_formula(testing::RandomProgram& random, const std::vector<std::string>& variables, int depth) {
  if (depth == 0 || random.below(4) == 0) {
    const IndexSum sum = random_sum(random, variables, 2);
    return random.below(5) == 0 ? Formula::equal_to_zero(sum) : Formula::at_least_zero(sum);
  }
  const Formula a = random_formula(random, variables, depth - 1), b = random_formula(random, variables, depth - 1);
  switch (random.below(5)) {
    case 0: return a || b;
    case 1: return !a;
    case 2: return (a && b) || (!a && !b);
    default: return a && b;
  }
}

TEST(RegionProperty, count_equals_a_loop_over_all_indices) {
  int counted = 0;
  const int regions = static_cast<int>(testing::program_count(3000));
  for (int seed = 0; seed < regions; ++seed) {
    testing::RandomProgram random(static_cast<unsigned>(seed));
    std::vector<std::string> variables{"S", "T"};
    if (random.below(3) == 0) variables.emplace_back("U");
    CountedRegion region{.region = Region(random_formula(random, variables, 3))};
    std::vector<Axis> kept;
    for (const std::string& v : variables)
      if (random.below(3) > 0) kept.push_back({.dim = v});
    region.region = region.region.project(kept);
    region.dims = region.region.free_dims();
    region.sequences = {{"S", {3, 1, 4}}, {"T", {2, 5}}};
    const Bindings sizes{{"S", 8}, {"T", 7}, {"U", 1 + random.below(6)}};
    const auto count = count_region(region, sizes);
    counted += count.has_value();
    if (!count) continue;
    ASSERT_EQ(*count, count_by_loop(region, sizes))
        << region.region.to_string() << ", seed " << seed << ", U = " << sizes.at("U");
  }
  EXPECT_EQ(counted, regions);
}

TEST(Region, counts_large_sizes_in_few_steps) {
  const std::int64_t n = std::int64_t{1} << 20;
  const Bindings sizes{{"S", n}, {"T", n}};
  const auto count = [&](const Formula& formula, std::vector<std::string> dims = {"S", "T"}) {
    std::vector<Axis> kept;
    for (const std::string& dim : dims) kept.push_back({.dim = dim});
    return count_region({.region = Region(formula).project(kept), .dims = dims}, sizes);
  };
  const Formula causal = at_most("T", "S");
  EXPECT_EQ(count(causal), n * (n + 1) / 2);
  EXPECT_EQ(count(Formula::at_least_zero(index_sum({{"S", 1}, {"T", -2}}))), (n / 2) * (n / 2 + 1));
  EXPECT_EQ(count(causal || at_most("T", "S", 5)), n * (n + 1) / 2 + 5 * n - 15);
  EXPECT_EQ(count(causal && Formula::at_least_zero(index_sum({{"T", 1}}, -2))), n * (n + 1) / 2 - n - (n - 1));
  const auto chunk = [](const std::string& v) { return round_down(index_sum({{v, Rational(1, 4)}})); };
  EXPECT_EQ(count(causal && Formula::equal_to_zero(chunk("S").plus(chunk("T"), -1))), 10 * (n / 4));
  // Every fourth diagonal: dilated attention
  const IndexSum distance = index_sum({{"S", 1}, {"T", -1}});
  const IndexSum remainder = distance.plus(round_down(distance.times(Rational(1, 4))), -4);
  EXPECT_EQ(count(causal && Formula::equal_to_zero(remainder)), 4 * ((n / 4) * (n / 4 + 1) / 2));
  EXPECT_EQ(count(causal, {"T"}), n);
  EXPECT_EQ(count(at_most("T", "S", -7), {"T"}), n - 7);
  EXPECT_EQ(count(at_most("T", "S") && at_most("S", "T", 3), {"T"}), n);
}

TEST(Region, counts_the_device_with_the_most) {
  CountedRegion region{.region = Region(at_most("T", "S")), .dims = {"S", "T"}, .mesh = {{"S", "X"}}};
  const Bindings sizes{{"S", 8}, {"T", 8}, {"X", 2}};
  EXPECT_EQ(count_region(region, sizes), 5 + 6 + 7 + 8);
  EXPECT_EQ(count_on_all_devices(region, sizes), 36);
  region.mesh = {{"T", "X"}};
  EXPECT_EQ(count_region(region, sizes), 8 + 7 + 6 + 5);
  region.mesh = {{"S", "X"}, {"T", "Y"}};
  EXPECT_EQ(count_region(region, {{"S", 8}, {"T", 8}, {"X", 2}, {"Y", 2}}), 16);
  EXPECT_EQ(count_region(region, {{"S", 7}, {"T", 7}, {"X", 2}, {"Y", 2}}), 12) << "rows 4 to 6, columns 0 to 3";
}

// Rows that see a key of one of 8 devices: those of its chunks, or all rows from its first chunk on.
TEST(Region, counts_rows_that_see_a_device_in_few_steps) {
  const std::int64_t n = std::int64_t{1} << 20;
  const auto chunk = [](const std::string& v) { return round_down(index_sum({{v, Rational(1, 8)}})); };
  const IndexSum distance = chunk("S").plus(chunk("T"), -1);
  const auto count = [&](const Formula& formula, std::int64_t devices, std::int64_t size) {
    std::int64_t work_left = 20'000;
    return count_region({.region = Region(formula).project({{.dim = "S"}}), .dims = {"S"}, .mesh = {{"T", "X"}}},
                        {{"S", size}, {"T", size}, {"X", devices}}, work_left);
  };
  EXPECT_EQ(count(Formula::equal_to_zero(distance), 8, n), n / 8);
  EXPECT_EQ(count(Formula::equal_to_zero(distance) && at_most("T", "S"), 8, n), n / 8);
  EXPECT_EQ(count(Formula::at_least_zero(distance), 8, n), n);
  EXPECT_EQ(count(Formula::equal_to_zero(distance), 3, 64), 24 + 8) << "keys 22 to 43: chunks 2 to 5";
}

TEST(Region, is_not_counted_without_sizes_or_beyond_a_number_of_steps) {
  const CountedRegion region{.region = Region(at_most("T", "S")), .dims = {"S", "T"}};
  EXPECT_EQ(count_region(region, {{"S", 8}}), std::nullopt);
  const CountedRegion lengths{.region = Region(Formula::equal_to_zero({.sequences = {{"S", 1}, {"T", -1}}})),
                              .dims = {"S", "T"}};
  EXPECT_EQ(count_region(lengths, {{"S", 8}, {"T", 8}}), std::nullopt) << "no lengths";
}

TEST(Formula, simplifies) {
  const Formula a = at_most("T", "S"), b = at_most("S", "T", 3);
  EXPECT_TRUE((a && !a).is_none());
  EXPECT_TRUE((a || !a).is_all());
  EXPECT_EQ((a && b) || (a && !b), a);
  EXPECT_EQ(a && (a || b), a);
  EXPECT_EQ(a || (a && b), a);
  EXPECT_EQ(!(!a || !b), a && b);
  EXPECT_EQ(a.text(), "index(T) <= index(S)");
  EXPECT_EQ((!a).text(), "index(S) + 1 <= index(T)");
  EXPECT_EQ(Formula::at_least_zero(index_sum({{"T", 2}}, -3)).text(), "2 <= index(T)");
  EXPECT_EQ(round_down(round_down(index_sum({{"T", Rational(1, 2)}})).times(Rational(1, 3))).to_string(),
            "floor(index(T)/6)");
}

}  // namespace
}  // namespace ridge
