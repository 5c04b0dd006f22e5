#include "ridge/plan/model/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

constexpr double max_run_tokens = 1e18, max_price = 1e9;
constexpr std::int64_t max_training_chips_tried = 64;

// Returns the layout's step with the requested parts of the batch. The request's plan is not used. Steps that do not
// fit may have no times.
Result<TrainingStep> size_layout(TrainingPredictor& predictor, const TrainingRequest& request,
                                 const model::ChipLayout& layout) {
  if (!request.accumulated && layout.pipeline > 1) return predictor.predict_fastest(layout);
  return predictor.size_step(layout, request.accumulated.value_or(1));
}

// Returns the number of chips below which weights, gradients and the optimizer's state do not fit, as a fraction of
// tensor parallelism's. Some parameters are in no program, so that a part of them counts.
double count_fewest_chips(const model::ModelCount& count, const TrainingRequest& request, const Machine& machine) {
  constexpr double counted_part = 0.9;
  if (!machine.memory.front().capacity) return 1;
  double parameters = 0;
  for (const model::PartCount& part : count.parts)
    if (part.is_in_programs) parameters += counted_part * static_cast<double>(part.parameters);
  const double width = bytes_per_element(request.counts.weight_dtype);
  const double bytes[] = {request.counts.weight_dtype == DType::f32 ? 8.0 : 12.0, width, width};
  double sum = 0;
  for (std::int64_t stage = 1; stage <= 3; ++stage)
    sum += bytes[stage - 1] * parameters / static_cast<double>(request.zero_stage >= stage ? request.data_parallel : 1);
  if (request.data_parallel > 1) sum /= static_cast<double>(request.expert_parallel);
  return sum / static_cast<double>(request.pipeline_parallel) / machine.memory.front().capacity->value;
}

// Returns the memory of the step on the fewest chips of tensor parallelism that hold it, or on the most that divide the
// model.
Result<TrainingStep> choose_training_chips(TrainingPredictor& predictor, const TrainingRequest& request,
                                           double fewest_chips) {
  const auto predict = [&](std::int64_t tensor) {
    return size_layout(predictor, request,
                       {tensor, request.expert_parallel, request.data_parallel, request.pipeline_parallel});
  };
  if (request.tensor_parallel) return predict(*request.tensor_parallel);
  // Experts are divided among data ranks without tensor parallelism, or among the chips of tensor parallelism.
  if (request.expert_parallel > 1 && request.data_parallel > 1) return predict(1);
  const std::int64_t fewest = request.data_parallel > 1 ? 1 : request.expert_parallel;
  const auto first = std::max<std::int64_t>(
      fewest, static_cast<std::int64_t>(std::ceil(std::min<double>(fewest_chips, max_training_chips_tried))));
  std::optional<TrainingStep> found;
  for (std::int64_t chips = first; chips <= max_training_chips_tried && !(found && found->fits()); ++chips)
    if (auto step = predict(chips)) found = *std::move(step);
  for (std::int64_t chips = first - 1; chips >= fewest && !found; --chips)
    if (auto step = predict(chips)) found = *std::move(step);
  if (!found) return predict(fewest);
  return *std::move(found);
}

void add_run(const TrainingRequest& request, TrainingStep& out) {
  if (!request.tokens) return;
  const double chips = static_cast<double>(out.layout.chips());
  TrainingRun run{.tokens = *request.tokens,
                  .flops = out.model_flops * chips / out.tokens() * *request.tokens,
                  .utilisation = request.utilisation.value_or(out.expected_utilisation()),
                  .is_given = request.utilisation.has_value(),
                  .is_bound = !request.utilisation && !out.predicted_s};
  run.seconds = run.flops / (chips * out.peak * run.utilisation);
  run.chip_hours = chips * run.seconds / 3600;
  if (request.price) run.cost = run.chip_hours * *request.price;
  if (out.power_w) run.energy_j = chips * run.seconds * *out.power_w;
  out.run = run;
}

}  // namespace

Status check_training(const TrainingRequest& request, const Machine& machine) {
  const std::int64_t accumulated = request.accumulated.value_or(1);
  if (accumulated < 1) return usage_error(fmt::format("expected --accumulate of at least 1, found {}", accumulated));
  if (request.data_parallel < 1)
    return usage_error(fmt::format("expected --dp of at least 1, found {}", request.data_parallel));
  if (request.counts.batch % accumulated != 0 || request.counts.batch / accumulated % request.data_parallel != 0)
    return usage_error(
        fmt::format("expected a --batch that --dp times --accumulate divides, found --batch {} --dp {} "
                    "--accumulate {}",
                    request.counts.batch, request.data_parallel, accumulated));
  if (request.plan && request.recomputation == Recomputation::none)
    return usage_error("expected --plan without --recompute none",
                       "the attention kernels compute the scores again: --recompute attention or full");
  if (request.tokens && !(*request.tokens >= 1 && *request.tokens <= max_run_tokens))
    return usage_error(fmt::format("expected --tokens from 1 to {:g}, found {:g}", max_run_tokens, *request.tokens));
  if (request.utilisation && !(*request.utilisation > 0 && *request.utilisation <= 1))
    return usage_error(fmt::format("expected --utilisation above 0 and up to 1, found {:g}", *request.utilisation));
  if (request.price && !(*request.price >= 0 && *request.price <= max_price))
    return usage_error(fmt::format("expected --price from 0 to {:g}, found {:g}", max_price, *request.price));
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  return Done{};
}

Result<TrainingStep> predict_training(const model::ModelConfig& config, const TrainingRequest& request,
                                      const Machine& machine, TrainingProgramCache& programs) {
  if (request.zero_stage > 0 && request.data_parallel < 2)
    return usage_error(fmt::format("expected --zero {} together with --dp of at least 2", request.zero_stage),
                       "the data ranks divide the state");
  if (config.audio)
    return input_error(fmt::format("{}: expected a model without an audio encoder for --phase train", config.name));
  RIDGE_TRY_STATUS(check_training(request, machine));
  RIDGE_TRY(count, model::count_model(config, request.counts));
  TrainingPredictor predictor(config, request, machine, programs);
  RIDGE_TRY(sized, choose_training_chips(predictor, request, count_fewest_chips(count, request, machine)));
  RIDGE_TRY(out, predictor.predict(sized.layout, sized.accumulated));
  out.is_tensor_chosen = !request.tensor_parallel;
  if (out.is_tensor_chosen && out.layout.tensor > 1)
    out.notes.push_back(
        fmt::format("{}--accumulate and --recompute full need less memory, so that fewer chips may hold "
                    "the step",
                    request.data_parallel > 1 ? "--zero, " : ""));
  out.parameters = static_cast<double>(count.active_parameters);
  for (const std::string& time : list_times_not_on_record(machine, out.layout.chips()))
    out.not_on_record.push_back(time);
  add_run(request, out);
  if (out.run && !config.experts) out.loss = predict_loss(static_cast<double>(count.parameters), out.run->tokens);
  return out;
}

}  // namespace ridge
