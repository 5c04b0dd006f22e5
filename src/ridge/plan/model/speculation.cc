#include "ridge/plan/model/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/plan/model/layout_predictor.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

constexpr std::int64_t max_draft_tokens = 64;

// Returns the step in which `new_tokens` of each sequence are new; the first of them sees `context` tokens.
Result<ModelStep> predict_new_tokens(const model::ModelConfig& config, const ModelRequest& request,
                                     std::int64_t new_tokens, std::int64_t context, const Machine& machine) {
  const model::StepOptions options{.weight_dtype = request.counts.weight_dtype,
                                   .cache_dtype = request.counts.cache_dtype,
                                   .new_tokens = new_tokens,
                                   .context = context + new_tokens - 1,
                                   .has_all_logits = true};
  LayoutPredictor predictor(config, options, machine, request.plan);
  const model::ChipLayout layout{*request.tensor_parallel, config.experts ? request.expert_parallel : 1,
                                 request.data_parallel, request.pipeline_parallel};
  return predictor.predict(layout, request.counts.batch, ModelPhase::decode);
}

// Returns the bound, or the expected time if kernels are planned. Errors: a kernel without a model.
Result<double> find_seconds(const ModelRequest& request, const ModelStep& step) {
  if (!request.plan) return step.bound_s;
  if (!step.predicted_s) return absent_error(step.remark);
  return step.predicted_s->expected;
}

Status check_speculation(const model::ModelConfig& config, const ModelRequest& request) {
  const SpeculationRequest& speculation = *request.speculation;
  if (speculation.draft_tokens < 1 || speculation.draft_tokens > max_draft_tokens)
    return usage_error(
        fmt::format("expected --speculate from 1 to {}, found {}", max_draft_tokens, speculation.draft_tokens));
  if (!(speculation.acceptance >= 0 && speculation.acceptance <= 1))
    return usage_error(fmt::format("expected --acceptance from 0 to 1, found {:g}", speculation.acceptance));
  const std::int64_t last = *request.counts.context + speculation.draft_tokens;
  for (const model::ModelConfig* each : {&config, speculation.draft ? &*speculation.draft : &config})
    if (each->learned_positions > 0 && last > each->learned_positions)
      return input_error(
          fmt::format("{}: expected --context and --speculate of at most {} together, the positions that "
                      "the model has, found {}",
                      each->name, each->learned_positions, last));
  return Done{};
}

Status add_draft_memory(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine,
                        Speculation& out) {
  const model::ModelConfig& draft = *request.speculation->draft;
  out.draft = draft.name;
  RIDGE_TRY(step, predict_new_tokens(draft, request, 1, *request.counts.context, machine));
  out.draft_weight_bytes = step.parameter_bytes + step.scale_bytes;
  out.draft_cache_bytes = step.cache_bytes;
  if (draft.vocabulary != config.vocabulary)
    out.notes.push_back(fmt::format("{} has {} tokens and {} has {}: both must use the same tokenizer", config.name,
                                    config.vocabulary, draft.name, draft.vocabulary));
  return Done{};
}

// Adds the requested step, a step without draft tokens, and the fastest.
Status add_steps(const model::ModelConfig& config, ModelRequest request, const Machine& machine, Speculation& out) {
  const std::int64_t draft_tokens = request.speculation->draft_tokens;
  auto step = predict_speculation_step(config, request, draft_tokens, machine);
  if (!step && request.plan) {
    out.notes.push_back(fmt::format("speculative decoding at the bound: {}", step.error().message));
    request.plan = {};
    step = predict_speculation_step(config, request, draft_tokens, machine);
  }
  if (!step) return step.error();
  out.is_predicted = request.plan.has_value();
  out.step = *step;
  RIDGE_TRY(plain, predict_speculation_step(config, request, 0, machine));
  out.plain_s = plain.token_s();
  out.best = out.step.token_s() < plain.token_s() ? out.step : plain;
  for (std::int64_t k = 1; k <= max_searched_draft_tokens; ++k) {
    const auto other = predict_speculation_step(config, request, k, machine);
    if (!other) break;  // More positions than the model has
    if (other->token_s() < out.best.token_s()) out.best = *other;
  }
  return Done{};
}

}  // namespace

Result<SpeculationStep> predict_speculation_step(const model::ModelConfig& config, const ModelRequest& request,
                                                 std::int64_t draft_tokens, const Machine& machine) {
  const SpeculationRequest& speculation = *request.speculation;
  const std::int64_t context = *request.counts.context;
  SpeculationStep out{.draft_tokens = draft_tokens,
                      .tokens = count_accepted_tokens(speculation.acceptance, draft_tokens)};
  RIDGE_TRY(verification, predict_new_tokens(config, request, draft_tokens + 1, context, machine));
  RIDGE_TRY(verify_s, find_seconds(request, verification));
  out.verify_s = verify_s;
  if (speculation.draft && draft_tokens > 0) {
    // The context grows by a token in each of the draft's steps; all have the time of the middle one.
    RIDGE_TRY(draft, predict_new_tokens(*speculation.draft, request, 1, context + (draft_tokens - 1) / 2, machine));
    RIDGE_TRY(draft_s, find_seconds(request, draft));
    out.draft_s = static_cast<double>(draft_tokens) * draft_s;
  }
  return out;
}

double count_accepted_tokens(double acceptance, std::int64_t draft_tokens) {
  double tokens = 0;
  for (std::int64_t i = 0; i <= draft_tokens; ++i) tokens += std::pow(acceptance, static_cast<double>(i));
  return tokens;
}

Result<Speculation> predict_speculation(const model::ModelConfig& config, const ModelRequest& request,
                                        const Machine& machine) {
  RIDGE_TRY_STATUS(check_speculation(config, request));
  Speculation out{.acceptance = request.speculation->acceptance};
  if (request.speculation->draft) RIDGE_TRY_STATUS(add_draft_memory(config, request, machine, out));
  RIDGE_TRY_STATUS(add_steps(config, request, machine, out));
  return out;
}

}  // namespace ridge
