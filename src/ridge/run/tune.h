// Chooses which of the candidate plans a product runs with on this device: the model's choice, a stored choice of an
// earlier measurement, or the result of a new measurement. A measurement takes turns between the model's best plans on
// separate memory, as device_steps.h does: rotating operands of random normals so that the L2 is cold, launches in a
// graph. After five rounds of all plans, the best three and the model's choice run nine more rounds. The plan with the
// lowest median wins if it is at least 2 % faster than the model's choice.
#pragma once

#include <functional>
#include <string>

#include "ridge/base/result.h"
#include "ridge/ops/product/tuned_choices.h"
#include "ridge/run/run_options.h"

namespace ridge {

struct ChosenPlan {
  ops::cuda::MatmulPlan plan;
  std::optional<TuningResult> tuned = {};
};

// The call must be supported (`unsupported_reason` returns nullopt). Errors: no device, no device memory for the
// operands.
Result<ChosenPlan> choose_matmul_plan(const ops::cuda::MatmulCall& call, std::size_t workspace_bytes,
                                      const TuneOptions& options);

// The same functions with the device's part passed in, for tests.
using PlanMeasurer = std::function<Result<std::vector<double>>(const std::vector<ops::cuda::MatmulPlan>&, int rounds)>;
Result<ops::cuda::TunedChoice> pick_fastest_plan(std::vector<ops::cuda::MatmulPlan> plans, int candidates,
                                                 const PlanMeasurer& measure);
Result<ChosenPlan> choose_matmul_plan(const ops::cuda::MatmulCall& call, std::size_t workspace_bytes,
                                      const TuneOptions& options, const ops::cuda::TunedChoices& stored_choices,
                                      const PlanMeasurer& measure);

}  // namespace ridge
