#include "ridge/run/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/device/device.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/plan_timer.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

// Smaller gains are noise: at the power limit, a plan's time varies by several per cent between runs.
constexpr double min_gain = 0.02;
constexpr int first_rounds = 5, finalist_rounds = 9;
constexpr std::size_t finalist_count = 3;

TuningResult to_tuning_result(const cuda::TunedChoice& choice, const cuda::MatmulPlan& model, bool now) {
  return {plan_name(choice.plan), choice.plan.splits,
          choice.seconds,         choice.model_seconds,
          choice.candidate_count, now,
          choice.plan == model,   ""};
}

}  // namespace

Result<cuda::TunedChoice> pick_fastest_plan(std::vector<cuda::MatmulPlan> plans, int candidates,
                                            const PlanMeasurer& measure) {
  RIDGE_TRY(first, measure(plans, first_rounds));
  std::vector<std::size_t> order(plans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return first[x] < first[y]; });
  std::vector<cuda::MatmulPlan> finalists{plans[0]};  // the model's choice
  for (const std::size_t i : order)
    if (i != 0 && finalists.size() <= finalist_count) finalists.push_back(plans[i]);
  RIDGE_TRY(seconds, measure(finalists, finalist_rounds));
  const auto best = std::min_element(seconds.begin(), seconds.end());
  const bool is_faster = *best < (1 - min_gain) * seconds.front();
  const std::size_t index = is_faster ? best - seconds.begin() : 0;
  return cuda::TunedChoice{finalists[index], seconds[index], seconds.front(), candidates};
}

Result<ChosenPlan> choose_matmul_plan(const cuda::MatmulCall& call, std::size_t workspace_bytes,
                                      const TuneOptions& options, const cuda::TunedChoices& stored_choices,
                                      const PlanMeasurer& measure) {
  const ops::DeviceNumbers& device = stored_choices.environment().numbers;
  const cuda::MatmulPlan model = cuda::choose_plan(call, workspace_bytes, device);
  using Path = cuda::MatmulPlan::Path;
  if (model.path == Path::plain || model.path == Path::nothing) return ChosenPlan{model};  // Without candidates
  if (call.problem.grouped) return ChosenPlan{model};  // the fastest plan depends on the groups' sizes
  const bool has_block_scales = is_block_scaled(call.problem.a.dtype) || is_block_scaled(call.problem.b.dtype);
  if (has_block_scales) return ChosenPlan{model};  // `PlanTimer` fills no blocks with scales
  const auto found = options.use_stored ? stored_choices.find(call, workspace_bytes) : cuda::TunedChoices::Lookup{};
  if (found.choice && found.choice->candidate_count >= options.candidates)
    return ChosenPlan{found.choice->plan, to_tuning_result(*found.choice, model, false)};
  if (options.candidates <= 0) {
    if (found.ignored_reason.empty()) return ChosenPlan{model};
    TuningResult tuned = to_tuning_result({model}, model, false);
    tuned.remark = found.ignored_reason;
    return ChosenPlan{model, tuned};
  }
  auto plans = cuda::list_candidates(call, workspace_bytes, device, 2);
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(options.candidates)));
  RIDGE_TRY(choice, pick_fastest_plan(plans, options.candidates, measure));
  ChosenPlan out{choice.plan, to_tuning_result(choice, model, true)};
  out.tuned->remark = found.ignored_reason;
  if (!stored_choices.save(call, choice))
    out.tuned->remark =
        "the tuned choice was not stored: cannot write $XDG_CACHE_HOME/ridge/tuned (default ~/.cache/ridge/tuned)";
  return out;
}

Result<ChosenPlan> choose_matmul_plan(const cuda::MatmulCall& call, std::size_t workspace_bytes,
                                      const TuneOptions& options) {
  RIDGE_TRY(device, current_device_numbers());
  if (!options.use_stored && options.candidates <= 0)
    return ChosenPlan{cuda::choose_plan(call, workspace_bytes, device)};
  RIDGE_TRY(properties, device::device_properties());
  const auto stored_choices = cuda::TunedChoices::for_user({properties.name, properties.driver, device});
  PlanTimer timer(call);
  const auto measure = [&](const std::vector<cuda::MatmulPlan>& plans, int rounds) {
    return timer.measure_plans(plans, rounds);
  };
  return choose_matmul_plan(call, workspace_bytes, options, stored_choices, measure);
}

}  // namespace ridge
