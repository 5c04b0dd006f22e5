// Compares the values of a flat program with count_unmasked() and with integer arithmetic at random sizes.
#include "ridge/roofline/sizes/flat_program.h"

#include <gtest/gtest.h>

#include <random>

namespace ridge {
namespace {

FlatProgram make_program(const FlatSizes& sizes) {
  const FlatCount none({}, {});
  return {.names = sizes.names(),
          .computed = sizes.computed(),
          .ops = {},
          .sum = {.flops = none, .bytes = none, .link_load = none},
          .bandwidth = 1,
          .reasons = {}};
}

std::int64_t random_size(std::mt19937_64& random) { return std::int64_t{1} << random() % 30 | random() % 7; }

// Returns a bound such as S - 2*T + 5, or none.
std::optional<Polynomial> random_bound(std::mt19937_64& random) {
  const auto factor = [&] { return Rational(static_cast<std::int64_t>(random() % 5) - 2, 1 + random() % 2); };
  if (random() % 3 == 0) return std::nullopt;
  return Polynomial::make_symbol("S") * factor() + Polynomial::make_symbol("T") * factor() +
         static_cast<std::int64_t>(random() % 40) - 20;
}

TEST(FlatSizes, CountTheSamePairsAsMasks) {
  std::mt19937_64 random(20261128);
  for (int i = 0; i < 2000; ++i) {
    const IndexMask mask{
        .rows = "S", .columns = "T", .lower = random_bound(random), .upper = random_bound(random), .symbol = "pairs"};
    FlatSizes sizes({"S", "T"}, {});
    sizes.add_mask(mask);
    std::vector<std::int64_t> values(sizes.names().size());
    values[0] = random_size(random);
    values[1] = random_size(random);
    ASSERT_EQ(evaluate_point(make_program(sizes), values.data()).reason, all_known);
    EXPECT_EQ(values.back(), *count_unmasked(mask, {{"S", values[0]}, {"T", values[1]}}))
        << values[0] << " " << values[1];
  }
}

TEST(FlatSizes, RoundShardsUpAndReplaceConstants) {
  FlatSizes sizes({"B"}, {{"D", 10}});
  sizes.add_derived_size("F", Polynomial::make_symbol("B") * Polynomial::make_symbol("D"));
  sizes.add_shard({"ceil(F/4)", "F", 4});
  sizes.add_shard({"ceil(D/4)", "D", 4});
  std::vector<std::int64_t> values{3, 0, 0};
  EXPECT_EQ(evaluate_point(make_program(sizes), values.data()).reason, all_known);
  EXPECT_EQ(values, (std::vector<std::int64_t>{3, 30, 8}));
  EXPECT_EQ(sizes.constants().at("ceil(D/4)"), 3);
}

TEST(FlatSizes, RejectDerivedSizesThatAreNotWhole) {
  FlatSizes sizes({"H"}, {});
  sizes.add_derived_size("G", Polynomial::make_symbol("H") * Rational(1, 8));
  sizes.computed().front().reason = 3;
  const FlatProgram program = make_program(sizes);
  std::vector<std::int64_t> values{16, 0};
  EXPECT_EQ(evaluate_point(program, values.data()).reason, all_known);
  values = {12, 0};
  EXPECT_EQ(evaluate_point(program, values.data()).reason, 3);
}

}  // namespace
}  // namespace ridge
