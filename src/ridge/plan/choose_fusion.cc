#include "ridge/plan/plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>

#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/model.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/routing/model.h"
#include "ridge/ops/rows/model.h"

namespace ridge {
namespace {

std::vector<int> contractions_in(const Program& program, const FusionGroup& group) {
  std::vector<int> out;
  for (const int s : group.statements)
    if (std::holds_alternative<Contraction>(program.statements[s].op)) out.push_back(s);
  return out;
}

}  // namespace

std::optional<double> predict_plan_seconds(const Plan& plan, const ops::DeviceNumbers& device) {
  double seconds = 0;
  for (const PlanStep& step : plan.steps) {
    const auto kernel = std::visit([&](const auto& problem) { return forecast(problem, device); }, step.kernel);
    if (!kernel) return std::nullopt;
    seconds += kernel->spread.middle * kernel->seconds;
  }
  return seconds;
}

Result<Plan> plan_fastest_fusion(const Program& program, const Bindings& dims, const FuseOptions& options,
                                 const ops::DeviceNumbers& device) {
  auto best = make_plan(program, dims, options);
  if (!best || !options.fuse) return best;
  auto min_seconds = predict_plan_seconds(*best, device);
  FuseOptions best_options = options;
  const std::vector<FusionGroup> groups = best->fusion.groups;
  for (const FusionGroup& group : groups) {
    const std::vector<int> products = contractions_in(program, group);
    if (!min_seconds || group.kind != FusionGroup::GroupKind::product || products.size() != 2) continue;
    FuseOptions trial_options = best_options;
    trial_options.unfused_products.insert(trial_options.unfused_products.end(), products.begin(), products.end());
    auto other = make_plan(program, dims, trial_options);
    const auto seconds = other ? predict_plan_seconds(*other, device) : std::nullopt;
    if (!seconds || *seconds >= *min_seconds) continue;
    min_seconds = seconds;
    best_options = trial_options;
    best = std::move(other);
  }
  return best;
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
