#include "ridge/plan/form_estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/product_size.h"
#include "ridge/ops/fitted.h"
#include "ridge/plan/library_model.h"

namespace ridge {
namespace {

constexpr double min_seconds = 1e-12;  // lower limit on times: a formula needs positive inputs

// Returns the compute time at the sustained rate, or at the peak where that was not measured.
double sustained_math_s(const Prediction& p) {
  const double slowdown = p.peak && p.peak->sustained ? p.peak->rate.value / p.peak->sustained->value : 1;
  return p.time_math_s.value_or(0) * slowdown;
}

ProductSize join_batch(const ops::MatmulProblem& p) { return {p.batch * p.size.m, p.size.n, p.size.k}; }

// Returns the largest product of the group.
ProductSize largest_product(const Plan& plan, int group) {
  ProductSize out{1, 1, 1};
  for (const PlanStep& step : plan.steps) {
    if (step.group != group) continue;
    ProductSize one{1, 1, 1};
    if (const auto* plain = std::get_if<ops::MatmulProblem>(&step.kernel))
      one = join_batch(ops::to_uniform_batch(*plain));
    if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) one = join_batch(fused->product);
    if (one.multiply_adds() > out.multiply_adds()) out = one;
  }
  return out;
}

}  // namespace

std::vector<double> cpu_formula_inputs(const Explanation& explanation, const Plan& plan, int group,
                                       const Prediction& group_prediction, double functions_s) {
  double multiply = 0, other = 0;
  const FusionGroup& of = plan.fusion.groups[group];
  for (const int s : statements_with_recomputed(of)) {
    const Prediction& p = explanation.ops[s];
    (p.work.contraction ? multiply : other) += sustained_math_s(p);
  }
  const MemoryLevel& memory = explanation.machine.memory.front();
  const double slowdown = memory.sustained && memory.bandwidth ? memory.bandwidth->value / memory.sustained->value : 1;
  const ProductSize p = largest_product(plan, group);
  return {std::max(multiply, min_seconds),
          std::max({other, functions_s, min_seconds}),
          std::max(group_prediction.time_memory_s.value_or(0) * slowdown, min_seconds),
          std::max(static_cast<double>(of.bytes_after), 1.0),
          static_cast<double>(std::max<std::int64_t>(p.m, 1)),
          static_cast<double>(std::max<std::int64_t>(p.n, 1)),
          static_cast<double>(std::max<std::int64_t>(p.k, 1))};
}

ops::LibraryDevice make_library_device(const Machine& machine, const ops::DatasheetRates& rates) {
  ops::LibraryDevice out{.rates = rates};
  if (machine.memory.size() > 1 && machine.memory[1].capacity) out.cache_bytes = machine.memory[1].capacity->value;
  return out;
}

std::string spread_key(const ops::LibraryFormula& formula, std::string_view what) {
  if (&formula == &ops::cpu_formula()) return fmt::format("cpu_{}", what);
  return &formula == &ops::product_formula() ? fmt::format("library_{}", what)
                                             : fmt::format("library_{}_{}", formula.name, what);
}

ops::PredictionSpread formula_spread(const Machine& machine, const ops::LibraryFormula& formula) {
  const auto at = [&](std::string_view what) {
    const auto found = machine.numbers.find(spread_key(formula, what));
    return found == machine.numbers.end() ? 1.0 : found->second.value;
  };
  return {at("low"), at("middle"), at("high")};
}

bool is_fitted(const Machine& machine, const ops::LibraryFormula& formula) {
  return std::all_of(formula.numbers.begin(), formula.numbers.end(),
                     [&](const ops::LibraryParameter& x) { return machine.numbers.contains(std::string(x.key)); });
}

std::optional<FormulaEstimate> estimate_with_formula(const Machine& machine, const ops::LibraryFormula& formula,
                                                     const std::vector<double>& sizes,
                                                     const ops::DatasheetRates& rates) {
  if (!is_fitted(machine, formula)) return std::nullopt;
  std::vector<double> numbers;
  for (const ops::LibraryParameter& x : formula.numbers)
    numbers.push_back(machine.numbers.at(std::string(x.key)).value);
  return FormulaEstimate{formula.estimate_seconds(sizes, make_library_device(machine, rates), numbers),
                         formula_spread(machine, formula)};
}

FormulaEstimate estimate_uncalibrated(const Machine& machine, const ops::LibraryFormula& formula,
                                      const std::vector<double>& sizes, const ops::DatasheetRates& rates) {
  std::vector<double> numbers;
  for (const ops::LibraryParameter& x : formula.numbers) numbers.push_back(x.initial_value);
  return {formula.estimate_seconds(sizes, make_library_device(machine, rates), numbers),
          ops::find_spread("library_elsewhere")};
}

}  // namespace ridge
