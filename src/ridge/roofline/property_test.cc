// Properties of every program on every machine: it is compute-bound at the threshold and memory-bound one below, the
// printed expression has the printed value, and more bandwidth makes nothing slower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/calculator.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

const std::vector<DType> dtypes{DType::bf16, DType::int8, DType::int4, DType::f32};

struct RandomCase {
  std::string text;
  Program program;
  Machine machine;
  Bindings sizes;
};

// Half of the machines have round numbers, half have every bit set.
double random_rate(testing::RandomProgram& random, double most) {
  const double value = static_cast<double>(random.size(static_cast<std::int64_t>(most)));
  return random.below(2) ? value : value * std::sqrt(2);
}

RandomCase make_random_case(unsigned seed) {
  testing::RandomProgram random(seed);
  const std::string text = seed % 2 ? random.pointwise(dtypes) : random.contraction(dtypes);
  const double bandwidth = random_rate(random, 1e6);
  std::vector<std::pair<DType, double>> matrix;
  for (const DType dtype : {DType::bf16, DType::int8, DType::int4})
    matrix.emplace_back(dtype, bandwidth * random_rate(random, 1e3));
  RandomCase d{
      text, *parse(text), testing::make_test_machine(matrix, bandwidth * random_rate(random, 1e3), bandwidth), {}};
  for (const std::string& dim : d.program.dim_names()) d.sizes[dim] = random.size(20000);
  return d;
}

// Returns nullopt if a count exceeds 10^38.
std::optional<bool> compute_bound_at(const RandomCase& d, const std::string& dim, std::int64_t value) {
  Bindings sizes = d.sizes;
  sizes[dim] = value;
  const auto e = explain(d.program, d.machine, sizes);
  if (e) return e->ops[0].limiter == Limiter::compute;
  EXPECT_TRUE(e.error().message.starts_with("expected a count below 10^38")) << e.error().to_string();
  return std::nullopt;
}

void expect_exact_threshold(const RandomCase& d, const Threshold& t, double ridge, std::map<Relation, int>& seen) {
  const std::string about = fmt::format("{}\n{} {} {}", d.text, t.dim, name(t.relation), t.value.value_or(0));
  ++seen[t.relation];
  ASSERT_NE(t.relation, Relation::at_most) << about;
  if (t.relation != Relation::at_least) {
    for (const std::int64_t size : {1, 2, 1000, 1000000}) {
      const bool always = t.relation == Relation::always;
      EXPECT_EQ(compute_bound_at(d, t.dim, size).value_or(always), always) << about;
    }
    EXPECT_TRUE(t.exact.empty() && !t.value && !t.value_real && !t.approx && t.assuming.empty()) << about;
    return;
  }
  ASSERT_TRUE(t.value && t.value_real) << about;
  EXPECT_LE(*t.value_real, static_cast<double>(*t.value)) << about;
  EXPECT_GE(*t.value_real, static_cast<double>(*t.value - 1)) << about;
  std::map<std::string, double> values(d.sizes.begin(), d.sizes.end());
  values["r"] = ridge;
  const double worth = testing::Calculator(t.exact, values).sum();
  EXPECT_NEAR(worth, *t.value_real, 1e-9 * worth * worth) << about << " " << t.exact;
  EXPECT_TRUE(compute_bound_at(d, t.dim, *t.value).value_or(true)) << about;
  EXPECT_FALSE(compute_bound_at(d, t.dim, *t.value - 1).value_or(false)) << about;
}

TEST(ThresholdProperty, compute_bound_at_the_value_and_memory_bound_one_below) {
  std::map<Relation, int> seen;
  for (unsigned seed = 0; seed < testing::program_count(4000); ++seed) {
    const RandomCase d = make_random_case(seed);
    const auto e = explain(d.program, d.machine, d.sizes);
    ASSERT_TRUE(e.ok()) << d.text << e.error().to_string();
    EXPECT_EQ(e->ops[0].thresholds.size(), d.program.dim_names().size()) << d.text;
    for (const Threshold& t : e->ops[0].thresholds) expect_exact_threshold(d, t, *e->ops[0].ridge, seen);
  }
  for (const Relation relation : {Relation::at_least, Relation::always, Relation::never})
    EXPECT_GT(seen[relation], 300);
}

TEST(ThresholdProperty, higher_bandwidth_lowers_thresholds_and_times) {
  for (unsigned seed = 0; seed < testing::program_count(1000); ++seed) {
    RandomCase d = make_random_case(seed);
    const Explanation slow = *explain(d.program, d.machine, d.sizes);
    d.machine.memory[0].bandwidth->value *= 1.25;
    const Explanation fast = *explain(d.program, d.machine, d.sizes);
    EXPECT_LE(*fast.ops[0].time_lower_s, *slow.ops[0].time_lower_s) << d.text;
    EXPECT_LE(*fast.ops[0].time_upper_s, *slow.ops[0].time_upper_s) << d.text;
    for (std::size_t i = 0; i < slow.ops[0].thresholds.size(); ++i) {
      const Threshold &before = slow.ops[0].thresholds[i], &after = fast.ops[0].thresholds[i];
      // First compute-bound size; 0 means every size, infinite means none.
      const auto first = [](const Threshold& t) {
        if (t.relation == Relation::always) return 0.0;
        return t.value ? static_cast<double>(*t.value) : HUGE_VAL;
      };
      EXPECT_LE(first(after), first(before)) << d.text;
    }
  }
}

// A program of several statements with communication: each statement, their sum and the fused program.
TEST(ThresholdProperty, higher_rates_make_nothing_slower) {
  for (unsigned seed = 0; seed < testing::program_count(1000); ++seed) {
    testing::RandomProgram random(seed);
    const auto dtype = [&] { return std::string(dtype_name(dtypes[random.below(4)])); };
    const std::string text = fmt::format(
        "mesh X = {}\nx: {}[B, D_X]   w: {}[D_X, F]\nu[B, F{}] = x * w\nv[B, F{}] = {}(u over F)\n"
        "y: bf16[B] = sum(v * v over F)",
        1 + random.below(4), dtype(), dtype(), seed % 2 ? "_X" : "", seed % 2 ? "_X" : "",
        seed % 3 ? "softmax" : "rmsnorm");
    const Program program = parse(text).value();
    Machine machine = testing::make_test_machine({{DType::bf16, random_rate(random, 1e5)},
                                                  {DType::int8, random_rate(random, 1e5)},
                                                  {DType::int4, random_rate(random, 1e5)}},
                                                 random_rate(random, 1e4), random_rate(random, 1e3));
    machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(random_rate(random, 1e3))});
    const Bindings sizes{{"B", random.size(20000)}, {"D", 12 * random.size(2000)}, {"F", 12 * random.size(2000)}};
    const Explanation slow = *explain(program, machine, sizes);
    const int which = random.below(3 + static_cast<int>(machine.peaks.size()) - 1);
    double* raised = &machine.memory[0].bandwidth->value;
    if (which == 1) raised = &machine.links[0].bandwidth.value;
    if (which > 1) raised = &machine.peaks[which - 2].rate.value;
    *raised *= 1 + static_cast<double>(random.size(1000)) / 100;
    const Explanation fast = *explain(program, machine, sizes);
    const auto expect_no_slower = [&](const Prediction& now, const Prediction& before) {
      EXPECT_LE(*now.time_lower_s, *before.time_lower_s) << text << " " << now.work.name;
      EXPECT_LE(*now.time_upper_s, *before.time_upper_s) << text << " " << now.work.name;
    };
    for (std::size_t i = 0; i < slow.ops.size(); ++i) expect_no_slower(fast.ops[i], slow.ops[i]);
    expect_no_slower(fast.total, slow.total);
    expect_no_slower(*fast.fused, *slow.fused);
  }
}

// Thresholds without sizes must agree with those at any sizes.
TEST(ThresholdProperty, without_sizes_agrees_with_every_choice_of_sizes) {
  int compared = 0;
  for (unsigned seed = 0; seed < testing::program_count(2000); ++seed) {
    RandomCase d = make_random_case(seed);
    testing::RandomProgram random(seed + 1);
    Bindings some = d.sizes;
    for (const auto& [dim, size] : d.sizes)
      if (random.below(2)) some.erase(dim);
    const Explanation symbolic = *explain(d.program, d.machine, some),
                      numeric = *explain(d.program, d.machine, d.sizes);
    for (const Threshold& t : symbolic.ops[0].thresholds)
      for (const Threshold& n : numeric.ops[0].thresholds) {
        if (t.dim != n.dim) continue;
        ++compared;
        if (t.relation == Relation::never || t.relation == Relation::always) {
          EXPECT_EQ(n.relation, t.relation) << d.text << " " << t.dim;
        } else if (n.relation == Relation::at_least) {
          EXPECT_EQ(n.exact, t.exact) << d.text;
        }
      }
  }
  EXPECT_GT(compared, 1000);
}

// The approximation is the boundary for very large dimensions in `assuming`.
TEST(ThresholdProperty, approximation_is_the_limit) {
  int compared = 0;
  for (unsigned seed = 0; seed < testing::program_count(3000); ++seed) {
    RandomCase d = make_random_case(seed);
    const Explanation e = *explain(d.program, d.machine, d.sizes);
    for (const Threshold& t : e.ops[0].thresholds) {
      if (!t.approx) continue;
      Polynomial flops = e.ops[0].work.flops, bytes = e.ops[0].work.bytes();
      std::map<std::string, double> sizes(d.sizes.begin(), d.sizes.end());
      for (const std::string& dim : e.dim_names)
        if (t.assuming.find(dim, t.dim.size()) != std::string::npos) sizes[dim] = 1e12;
      const auto at = [&](const Polynomial& p, double x) {
        sizes[t.dim] = x;
        return p.evaluate_double(sizes);
      };
      const double f1 = at(flops, 2) - at(flops, 1), m1 = at(bytes, 2) - at(bytes, 1), m0 = at(bytes, 1) - m1;
      const double r = *e.ops[0].ridge;
      if (1 - r * m1 / f1 < 1e-13) continue;  // Below the precision of doubles
      EXPECT_NEAR(r * m0 / (f1 - r * m1) / *t.approx, 1, 1e-2) << d.text << " " << t.dim;
      ++compared;
    }
  }
  EXPECT_GT(compared, 150);
}

}  // namespace
}  // namespace ridge
