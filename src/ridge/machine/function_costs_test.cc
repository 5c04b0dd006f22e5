#include "ridge/machine/function_costs.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(FunctionCosts, ComeFromTheMachineElseFromASimilarOne) {
  const Machine h200 = *find_machine("h200");
  EXPECT_EQ(function_cost(h200, Function::exp).value, 16);
  EXPECT_EQ(function_cost(h200, Function::exp).origin, Origin::derived);
  const SourcedValue guess = function_cost(*find_machine("a100_40"), Function::exp);
  EXPECT_EQ(guess.value, 16);
  EXPECT_EQ(guess.origin, Origin::guessed);
  EXPECT_EQ(guess.source, "as on h100");
  const SourcedValue unknown = function_cost(*find_machine("tpu_v5e"), Function::exp);
  EXPECT_EQ(unknown.value, 1);
  EXPECT_EQ(unknown.source, "not on record");
}

TEST(FunctionCosts, AreWholeFlopsOfAtLeastOne) {
  Machine machine;
  for (const auto& [given, used] : {std::pair(0.1, 1.0), {53.6, 54.0}}) {
    machine.numbers["cost_cos"].value = given;
    EXPECT_EQ(function_cost(machine, Function::cos).value, used);
  }
}

TEST(FunctionCosts, OfThisCpuAreThoseOfItsKernels) {
  Machine machine;
  machine.name = "cpu";
  EXPECT_EQ(function_cost(machine, Function::cos).value, function_info(Function::cos).cpu_flops);
  EXPECT_EQ(function_cost(machine, Function::cos).origin, Origin::guessed);
}

}  // namespace
}  // namespace ridge
