#include "ridge/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <set>

#include "ridge/base/string_util.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/model.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/routing/model.h"
#include "ridge/ops/rows/model.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

// Returns the products and convolutions of a group whose products could have separate kernels.
std::vector<int> products_in(const Program& program, const FusionGroup& group) {
  std::vector<int> out;
  if (group.kind != FusionGroup::GroupKind::product || group.statements.size() == 1) return out;
  for (const int s : group.statements)
    if (std::holds_alternative<Contraction>(program.statements[s].op) || convolution_of(program.statements[s]))
      out.push_back(s);
  return out;
}

std::optional<double> predict_step_seconds(const PlanStep& step, const ops::DeviceNumbers& device) {
  const auto kernel = std::visit([&](const auto& problem) { return forecast(problem, device); }, step.kernel);
  return kernel ? std::optional(kernel->spread.middle * kernel->seconds) : std::nullopt;
}

// Returns the predicted time of the groups of `plan` that `other` lacks. Groups of the same statements take the same
// time in both plans, so that a comparison need not predict them: a network has many.
std::optional<double> predict_different_groups(const Plan& plan, const Plan& other, const ops::DeviceNumbers& device) {
  const auto statements_of = [](const FusionGroup& group) { return std::pair(group.statements, group.recomputed); };
  std::set<std::pair<std::vector<int>, std::vector<int>>> common;
  for (const FusionGroup& group : other.fusion.groups) common.insert(statements_of(group));
  double seconds = 0;
  for (const PlanStep& step : plan.steps) {
    if (common.contains(statements_of(plan.fusion.groups[step.group]))) continue;
    const auto step_s = predict_step_seconds(step, device);
    if (!step_s) return std::nullopt;
    seconds += *step_s;
  }
  return seconds;
}

// Returns the predicted time of the steps of one statement that is a group of its own.
std::optional<double> predict_statement_seconds(const Plan& plan, int statement, const ops::DeviceNumbers& device) {
  double seconds = 0;
  for (const PlanStep& step : plan.steps) {
    if (plan.fusion.groups[step.group].statements != std::vector{statement}) continue;
    const auto step_s = predict_step_seconds(step, device);
    if (!step_s) return std::nullopt;
    seconds += *step_s;
  }
  return seconds;
}

class FusionSearch {
 public:
  FusionSearch(const Program& program, const Bindings& dims, const FuseOptions& options,
               const ops::DeviceNumbers& device, Plan first)
      : program_(program), dims_(dims), device_(device), options_(options), best_(std::move(first)) {}

  // Pairs come first, because either of their products may keep an epilogue.
  Result<Plan> find_fastest() {
    const std::vector<FusionGroup> groups = best_.fusion.groups;
    for (const FusionGroup& group : groups)
      if (const std::vector<int> products = products_in(program_, group); products.size() == 2) {
        const bool is_separate = try_separate(products, {});
        if (!is_separate) (void)try_separate(products, products);
      }
    const std::vector<FusionGroup> unpaired_groups = best_.fusion.groups;
    for (const FusionGroup& group : unpaired_groups)
      if (const std::vector<int> products = products_in(program_, group); products.size() == 1)
        (void)try_separate({}, products);
    for (int s = 0; s < static_cast<int>(program_.statements.size()); ++s)
      if (const Routine* const routine = routine_of(program_.statements[s]);
          routine && routine->kind == RoutineKind::routed)
        try_unsorted_routing(s);
    return make_plan(program_, dims_, options_);  // with the reasons, which name the times
  }

 private:
  // Keeps the plan with the products in separate kernels, and some of them without an epilogue, if it is faster.
  bool try_separate(const std::vector<int>& unpaired, const std::vector<int>& without_epilogue) {
    FuseOptions trial = options_;
    const auto set_reason = [&](const std::string& times) {
      for (const int p : unpaired)
        trial.unpaired_products[p] = "the two products are predicted to be faster in separate kernels" + times;
      for (const int p : without_epilogue)
        trial.products_without_epilogue[p] =
            "the product and its epilogue are predicted to be faster in separate kernels" + times;
    };
    set_reason("");
    auto plan = make_plan(program_, dims_, trial);
    if (!plan) return false;
    const auto separate_s = predict_different_groups(*plan, best_, device_),
               fused_s = predict_different_groups(best_, *plan, device_);
    if (!separate_s || !fused_s || *separate_s >= *fused_s) return false;
    set_reason(
        fmt::format(": {} instead of {}", format_with_prefix(*separate_s, "s"), format_with_prefix(*fused_s, "s")));
    options_ = std::move(trial);
    best_ = std::move(*plan);
    return true;
  }

  // Keeps the plan in which each row of a routed product reads the weights of its expert, if it is faster.
  void try_unsorted_routing(int statement) {
    FuseOptions trial = options_;
    trial.unsorted_routing.insert(statement);
    auto plan = make_plan(program_, dims_, trial);
    if (!plan) return;
    const auto unsorted_s = predict_statement_seconds(*plan, statement, device_),
               sorted_s = predict_statement_seconds(best_, statement, device_);
    if (!unsorted_s || !sorted_s || *unsorted_s >= *sorted_s) return;
    options_ = std::move(trial);
    best_ = std::move(*plan);
  }

  const Program& program_;
  const Bindings& dims_;
  const ops::DeviceNumbers& device_;
  FuseOptions options_;
  Plan best_;
};

}  // namespace

std::optional<double> predict_plan_seconds(const Plan& plan, const ops::DeviceNumbers& device) {
  double seconds = 0;
  for (const PlanStep& step : plan.steps) {
    const auto step_s = predict_step_seconds(step, device);
    if (!step_s) return std::nullopt;
    seconds += *step_s;
  }
  return seconds;
}

Result<Plan> plan_fastest_fusion(const Program& program, const Bindings& dims, const FuseOptions& options,
                                 const ops::DeviceNumbers& device) {
  auto first = make_plan(program, dims, options);
  if (!first || !options.fuse) return first;
  return FusionSearch(program, dims, options, device, std::move(*first)).find_fastest();
}

std::vector<int> order_groups(const std::vector<std::vector<int>>& members,
                              const std::vector<std::set<int>>& successors) {
  const auto at = [](int group) { return static_cast<std::size_t>(group); };
  std::vector<int> waits(members.size());
  for (const std::set<int>& later : successors)
    for (const int g : later) ++waits[at(g)];
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int g = 0; g < static_cast<int>(members.size()); ++g)
    if (!members[at(g)].empty() && waits[at(g)] == 0) ready.push(g);
  std::vector<int> out;
  while (!ready.empty()) {
    out.push_back(ready.top());
    ready.pop();
    for (const int g : successors[at(out.back())])
      if (--waits[at(g)] == 0) ready.push(g);
  }
  return out;
}

std::vector<int> statements_with_recomputed(const FusionGroup& group) {
  std::vector<int> out;
  std::merge(group.statements.begin(), group.statements.end(), group.recomputed.begin(), group.recomputed.end(),
             std::back_inserter(out));
  return out;
}

}  // namespace ridge
