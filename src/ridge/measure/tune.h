// Which of the menu's plans a product runs with on this device: the model's choice, one that was measured earlier, or
// one that is measured now. Measuring takes the model's best plans in turns on memory of its own, in the way of
// device_steps.h: operands of normal random numbers that rotate so that the L2 is cold, launches in a graph. Five
// rounds of all of them leave three, which meet the model's choice in nine more; the one with the
// least median runs if it gains 2 % on the model's choice.
#pragma once

#include <functional>
#include <string>

#include "ridge/base/result.h"
#include "ridge/ops/product/tuned_choices.h"

namespace ridge {

struct TuneOptions {
  bool stored = false;  // a choice that is kept (ops/product/tuned_choices.h) goes before the model's
  int candidates = 0;   // more than 0: where none is kept that so many plans took part in, measures and keeps it
};

// How a product's plan was found, where it is not simply the model's.
struct Tuned {
  std::string kernel;                     // of the menu: "sm90_128x192x64_pingpong"
  int pieces = 1;                         // of k
  double seconds = 0, model_seconds = 0;  // of the plan that runs, and of the model's choice; 0: nothing is known
  int candidates = 0;                     // that took part
  bool now = false;                       // measured in this run; else earlier
  bool is_model = false;                  // none gained 2 % on the model's choice
  std::string remark;                     // an entry that was ignored, one that could not be written: a sentence
};

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
