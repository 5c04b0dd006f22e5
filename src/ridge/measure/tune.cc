#include "ridge/measure/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/device/device.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/plan_timer.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

// Smaller gains are noise: at the power limit, a plan's time varies by several per cent between runs.
constexpr double least_gain = 0.02;
constexpr int first_rounds = 5, last_rounds = 9;
constexpr std::size_t finalists = 3;

Tuned tuned_of(const cuda::TunedChoice& choice, const cuda::MatmulPlan& model, bool now) {
  return {plan_name(choice.plan), choice.plan.splits,
          choice.seconds,         choice.model_seconds,
          choice.candidates,      now,
          choice.plan == model,   ""};
}

}  // namespace

Result<cuda::TunedChoice> tuned_choice(std::vector<cuda::MatmulPlan> plans, int candidates,
                                       const MeasurePlans& measure) {
  const auto first = measure(plans, first_rounds);
  if (!first) return first.error();
  std::vector<std::size_t> order(plans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return (*first)[x] < (*first)[y]; });
  std::vector<cuda::MatmulPlan> last{plans[0]};  // the model's choice
  for (const std::size_t i : order)
    if (i != 0 && last.size() <= finalists) last.push_back(plans[i]);
  const auto seconds = measure(last, last_rounds);
  if (!seconds) return seconds.error();
  const auto best = std::min_element(seconds->begin(), seconds->end());
  const bool gains = *best < (1 - least_gain) * seconds->front();
  const auto index = static_cast<std::size_t>(gains ? best - seconds->begin() : 0);
  return cuda::TunedChoice{last[index], (*seconds)[index], seconds->front(), candidates};
}

Result<ChosenPlan> choose_plan(const cuda::MatmulCall& call, std::size_t workspace_bytes, const TuneOptions& options,
                               const cuda::TunedChoices& kept, const MeasurePlans& measure) {
  const ops::DeviceNumbers& device = kept.place().numbers;
  const cuda::MatmulPlan model = cuda::choose(call, workspace_bytes, device);
  using Path = cuda::MatmulPlan::Path;
  if (model.path != Path::tiles && model.path != Path::gemv) return ChosenPlan{model};  // this path has no candidates
  if (call.problem.grouped) return ChosenPlan{model};  // the fastest plan depends on the groups' sizes
  const auto found = options.stored ? kept.find(call, workspace_bytes) : cuda::TunedChoices::Found{};
  if (found.choice && found.choice->candidates >= options.candidates)
    return ChosenPlan{found.choice->plan, tuned_of(*found.choice, model, false)};
  if (options.candidates <= 0) {
    if (found.ignored.empty()) return ChosenPlan{model};
    Tuned tuned = tuned_of({model}, model, false);
    tuned.remark = found.ignored;
    return ChosenPlan{model, tuned};
  }
  auto plans = cuda::candidates(call, workspace_bytes, device, 2);
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(options.candidates)));
  const auto choice = tuned_choice(plans, options.candidates, measure);
  if (!choice) return choice.error();
  ChosenPlan out{choice->plan, tuned_of(*choice, model, true)};
  out.tuned->remark = found.ignored;
  if (!kept.keep(call, *choice))
    out.tuned->remark =
        "the tuned choice was not stored: cannot write $XDG_CACHE_HOME/ridge/tuned (default ~/.cache/ridge/tuned)";
  return out;
}

Result<ChosenPlan> choose_plan(const cuda::MatmulCall& call, std::size_t workspace_bytes, const TuneOptions& options) {
  const auto device = device_numbers_here();
  if (!device) return device.error();
  if (!options.stored && options.candidates <= 0) return ChosenPlan{cuda::choose(call, workspace_bytes, *device)};
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  const auto kept = cuda::TunedChoices::of_user({facts->name, facts->driver, *device});
  PlanTimer timer(call);
  const auto measure = [&](const std::vector<cuda::MatmulPlan>& plans, int rounds) {
    return timer.measure(plans, rounds);
  };
  return choose_plan(call, workspace_bytes, options, kept, measure);
}

}  // namespace ridge
