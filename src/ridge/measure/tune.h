// Which of the menu's plans a product runs with on this device: the model's choice, one that was measured earlier, or
// one that is measured now. Measuring takes the model's best plans in turns on memory of its own, in the way of
// device_steps.h: operands of normal random numbers that rotate so that the L2 is cold, launches in a graph. Five
// rounds of all of them leave three, which meet the model's choice in nine more; the one with the
// least median runs if it gains 2 % on the model's choice.
#pragma once

#include <functional>
#include <string>

#include "ridge/base/result.h"
#include "ridge/measure/tune_options.h"
#include "ridge/ops/product/tuned_choices.h"

namespace ridge {

struct ChosenPlan {
  ops::cuda::MatmulPlan plan;
  std::optional<Tuned> tuned = {};
};

// The call must not be refused. Errors: no device, no memory for the operands on it.
Result<ChosenPlan> choose_plan(const ops::cuda::MatmulCall& call, std::size_t workspace_bytes,
                               const TuneOptions& options);

// The same with the parts that need a device handed in.
using MeasurePlans = std::function<Result<std::vector<double>>(const std::vector<ops::cuda::MatmulPlan>&, int rounds)>;
Result<ops::cuda::TunedChoice> tuned_choice(std::vector<ops::cuda::MatmulPlan> plans, int candidates,
                                            const MeasurePlans& measure);
Result<ChosenPlan> choose_plan(const ops::cuda::MatmulCall& call, std::size_t workspace_bytes,
                               const TuneOptions& options, const ops::cuda::TunedChoices& kept,
                               const MeasurePlans& measure);

}  // namespace ridge
