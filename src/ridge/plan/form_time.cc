#include "ridge/plan/form_time.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/plan/library.h"

namespace ridge {
namespace {

constexpr double least_s = 1e-12;  // lower limit on inputs, seconds; a form needs positive ones

// Returns the compute time at the sustained rate, or at the peak where that was not measured.
double sustained_s(const Prediction& p) {
  const double slower = p.peak && p.peak->sustained ? p.peak->rate.value / p.peak->sustained->value : 1;
  return p.time_math_s.value_or(0) * slower;
}

struct Product {
  double m = 1, n = 1, k = 1;
};
Product named(const ops::MatmulProblem& p) {
  return {static_cast<double>(p.batch * p.m), static_cast<double>(p.n), static_cast<double>(p.k)};
}

// Returns the largest product of the group.
Product product_in(const Plan& plan, int group) {
  Product out;
  for (const Step& step : plan.steps) {
    if (step.group != group) continue;
    Product one;
    if (const auto* plain = std::get_if<ops::MatmulProblem>(&step.kernel)) one = named(ops::alike(*plain));
    if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) one = named(fused->product);
    if (one.m * one.n * one.k > out.m * out.n * out.k) out = one;
  }
  return out;
}

}  // namespace

std::vector<double> cpu_sizes(const Explanation& explanation, const Plan& plan, int group, const Prediction& whole,
                              double functions_s) {
  double multiply = 0, other = 0;
  const Group& of = plan.fusion.groups[static_cast<std::size_t>(group)];
  for (const int s : all_statements(of)) {
    const Prediction& p = explanation.ops[static_cast<std::size_t>(s)];
    (p.work.contraction ? multiply : other) += sustained_s(p);
  }
  const MemoryLevel& memory = explanation.machine.memory.front();
  const double slower = memory.sustained && memory.bandwidth ? memory.bandwidth->value / memory.sustained->value : 1;
  const Product p = product_in(plan, group);
  return {std::max(multiply, least_s),
          std::max({other, functions_s, least_s}),
          std::max(whole.time_memory_s.value_or(0) * slower, least_s),
          std::max(static_cast<double>(of.bytes_after), 1.0),
          std::max(p.m, 1.0),
          std::max(p.n, 1.0),
          std::max(p.k, 1.0)};
}

ops::LibraryChip chip_of(const Machine& machine, const ops::LibraryMachine& rates) {
  ops::LibraryChip out{.rates = rates};
  if (machine.memory.size() > 1 && machine.memory[1].capacity) out.cache_bytes = machine.memory[1].capacity->value;
  return out;
}

std::string spread_key(const ops::LibraryForm& form, std::string_view what) {
  if (&form == &ops::cpu_form()) return fmt::format("cpu_{}", what);
  return &form == &ops::product_form() ? fmt::format("library_{}", what)
                                       : fmt::format("library_{}_{}", form.name, what);
}

ops::Spread spread_of(const Machine& machine, const ops::LibraryForm& form) {
  const auto at = [&](std::string_view what) {
    const auto found = machine.numbers.find(spread_key(form, what));
    return found == machine.numbers.end() ? 1.0 : found->second.value;
  };
  return {at("low"), at("middle"), at("high")};
}

bool is_fitted(const Machine& machine, const ops::LibraryForm& form) {
  return std::all_of(form.numbers.begin(), form.numbers.end(),
                     [&](const ops::LibraryNumber& x) { return machine.numbers.contains(std::string(x.key)); });
}

std::optional<FormTime> form_time(const Machine& machine, const ops::LibraryForm& form,
                                  const std::vector<double>& sizes, const ops::LibraryMachine& rates) {
  if (!is_fitted(machine, form)) return std::nullopt;
  std::vector<double> numbers;
  for (const ops::LibraryNumber& x : form.numbers) numbers.push_back(machine.numbers.at(std::string(x.key)).value);
  return FormTime{form.seconds(sizes, chip_of(machine, rates), numbers), spread_of(machine, form)};
}

}  // namespace ridge
