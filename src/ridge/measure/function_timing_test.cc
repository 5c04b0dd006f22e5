#include "ridge/measure/function_timing.h"

#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

// Returns times of two chains beside a peak of 1e11 FLOP/s; a single call takes 1 ns.
FunctionTimings make_timings(double short_s, double long_s) {
  return {.peak_s = 1e-5,
          .single_s = 1e-5,
          .short_s = short_s,
          .long_s = long_s,
          .peak_flops = 1e6,
          .elements = 10'000,
          .more_calls = 40'000};
}

TEST(FunctionTiming, CostsAreFlopsAtThePeakOfOneMoreCall) {
  FunctionTimings timings = make_timings(1e-5, 3e-5);  // A call takes (30 - 10) us / 40 000 = 0.5 ns
  EXPECT_DOUBLE_EQ(compute_call_cost(timings), 50);
  timings.single_s = 4e-6;
  EXPECT_DOUBLE_EQ(compute_call_cost(timings), 40) << "single calls overlap, repeated ones wait for each other";
}

TEST(FunctionTiming, ACallTakesAtLeastOneFlop) {
  FunctionTimings timings = make_timings(3e-5, 1e-5);
  EXPECT_DOUBLE_EQ(compute_call_cost(timings), 100) << "noise made the longer chain faster: the single call decides";
  timings.single_s = 1e-8;
  EXPECT_EQ(compute_call_cost(timings), 1);
}

TEST(FunctionTiming, TimesEveryFunctionOfTheTable) {
  for (const FunctionInfo& info : function_table) {
    if (!info.has_cost) continue;
    const FunctionTimings timings = time_function(info.function, 0, pool::peak_loops());
    EXPECT_GT(timings.peak_s, 0) << info.name;
    EXPECT_GT(timings.single_s, 0) << info.name;
    EXPECT_GT(timings.short_s, 0) << info.name;
    EXPECT_GT(timings.long_s, 0) << info.name;
    EXPECT_EQ(timings.more_calls, 12 * 1024) << info.name;
  }
}

// Costs of two runs: of every function 10.2 and 20, of exp 33.6 and 35.
std::vector<ProbeLine> lines_of_two_runs() {
  std::vector<std::vector<double>> runs(2);
  for (const FunctionInfo& info : function_table) {
    if (!info.has_cost) continue;
    runs[0].push_back(info.function == Function::exp ? 35 : 10.2);
    runs[1].push_back(info.function == Function::exp ? 33.6 : 20);
  }
  return make_cost_lines(runs);
}

TEST(FunctionTiming, MachinesTakeTheSmallestCost) {
  Machine machine;
  std::vector<ProbeLine> lines = lines_of_two_runs();
  const std::size_t count = lines.size();
  lines.push_back({"f32", "FLOP/s", 1, compute_statistics({1e11}), ""});
  add_function_costs(machine, lines);
  EXPECT_EQ(machine.numbers.size(), count) << "a rate is no cost";
  const SourcedValue& cost = machine.numbers.at("cost_exp");
  EXPECT_EQ(cost.value, 33);
  EXPECT_EQ(cost.origin, Origin::measured);
  EXPECT_EQ(cost.source, "ridge probe, one call in a chain in the L1, at one core's vector peak");
  EXPECT_EQ(cost.note, "smallest of 2 runs, 33.6 to 35");
  EXPECT_EQ(machine.numbers.at("cost_divide").value, 10);
}

TEST(FunctionTiming, MeasuredCostsChangeTheLimiter) {
  const Program program = *parse("x: f32[N]   y: f32[N] = cos(x)");
  const auto limiter_at_cost = [&](double cost) {
    Machine machine = *find_machine("h200");
    machine.numbers["cost_cos"].value = cost;
    return *explain(program, machine, {{"N", 1 << 28}})->total.limiter;
  };
  EXPECT_EQ(limiter_at_cost(10), Limiter::memory);
  EXPECT_EQ(limiter_at_cost(1000), Limiter::compute);
}

}  // namespace
}  // namespace ridge
