#include "ridge/plan/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/ops/fitted.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/roofline/next_steps.h"

namespace ridge {
namespace {

bool has_planner(const Machine& machine) { return machine.name == "cpu" || device_numbers(machine); }

// Returns the planner's prediction, or, without a planner, the bounds with perfect overlap and without overlap.
std::optional<Interval> predict_seconds(const Program& program, const Explanation& explanation,
                                        const PlanRequest& request) {
  if (has_planner(explanation.machine)) {
    const auto planned = predict_program(program, explanation, request);
    return planned ? std::optional(planned->predicted_s) : std::nullopt;
  }
  const Prediction& total = explanation.total;
  if (!total.time_lower_s || !total.time_upper_s) return std::nullopt;
  return Interval{*total.time_lower_s, *total.time_lower_s, *total.time_upper_s};
}

// Returns measured over predicted values of the ratio of two programs' times; the ratio is more certain than each time.
ops::PredictionSpread find_advice_spread(const Machine& machine, const std::string& kind) {
  const auto device = device_numbers(machine);
  return ops::find_spread((device ? "device_advice_" : "advice_") + kind);
}
Interval estimate_gain(const Interval& current, double variant_s, double work_ratio,
                       const ops::PredictionSpread& spread) {
  const auto gain = [&](double ratio) { return current.expected - ratio * variant_s / work_ratio; };
  return {gain(spread.high), gain(spread.middle), gain(spread.low)};
}

void add_variant_advice(const Program& program, const Explanation& explanation, const PlanRequest& request,
                        AdviceList& out) {
  const auto planned = has_planner(explanation.machine) ? predict_program(program, explanation, request)
                                                        : Result<PlannedProgram>(usage_error(""));
  for (const ProgramVariant& variant : make_variants(program, explanation, planned ? &*planned : nullptr)) {
    const auto other = explain(variant.program, explanation.machine, variant.dims, {}, Thresholds::skipped);
    const auto seconds = other ? predict_seconds(variant.program, *other, request) : std::nullopt;
    if (!seconds) continue;
    out.advice.push_back({.kind = variant.kind,
                          .description = variant.description,
                          .gain_s = estimate_gain(out.predicted_s, seconds->expected, variant.work_ratio,
                                                  find_advice_spread(explanation.machine, variant.kind)),
                          .variant = print_program(with_sizes(variant.program, variant.dims)),
                          .work_ratio = variant.work_ratio,
                          .explain_options = {}});
  }
}

// Adds advice that no program on one device can confirm: several chips that communicate, and weight dtypes without a
// kernel. The gain comes from the bounds, with and without overlap.
void add_bound_advice(const Program& program, const Explanation& explanation, AdviceList& out) {
  const Prediction& total = explanation.total;
  if (!total.time_lower_s || *total.time_lower_s <= 0) return;
  const double scale = out.predicted_s.expected / *total.time_lower_s;
  for (const NextStep& step : suggest_next_steps(program, explanation, {})) {
    const bool is_shown = std::any_of(out.advice.begin(), out.advice.end(), [&](const Advice& x) {
      return step.options.starts_with("--weights") && x.description == "store the weights in int8";
    });
    const bool is_part =
        step.options.starts_with("--split") &&
        std::any_of(out.advice.begin(), out.advice.end(), [](const Advice& x) { return x.kind == "chips"; });
    if (!step.gain_s || is_shown || is_part || step.options.starts_with("--fuse")) continue;
    const double gain = *step.gain_s * scale;
    out.advice.push_back({.kind = "bound",
                          .description = step.description,
                          .gain_s = {*step.gain_s / std::max(1.0, scale), gain, std::max(gain, *step.gain_s)},
                          .variant = {},
                          .work_ratio = 1,
                          .explain_options = step.options});
  }
}

// Returns the results that plain loops compute.
std::vector<std::string> list_loops(const Program& program, const PlannedProgram& planned) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < planned.kernels.size(); ++i)
    if (!planned.kernels[i].has_model)
      out.push_back(program.tensors[program.statements[planned.fusion.groups[i].statements.back()].result()].name);
  return out;
}

// If the request runs each statement as its own kernel, adds fusion as advice.
Status add_fusion_advice(const Program& program, const Explanation& explanation, const PlanRequest& request,
                         AdviceList& out) {
  if (request.fuse || !has_planner(explanation.machine)) return Done{};
  RIDGE_TRY(shared, predict_program(program, explanation, {.library = request.library, .count_bytes = false}));
  out.advice.push_back({.kind = "sharing",
                        .description = "fuse statements into shared kernels",
                        .gain_s = estimate_gain(out.predicted_s, shared.predicted_s.expected, 1,
                                                find_advice_spread(explanation.machine, "sharing")),
                        .variant = {},
                        .work_ratio = 1,
                        .explain_options = "--plan"});
  return Done{};
}

}  // namespace

Result<AdviceList> make_advice(const Program& program, const Explanation& explanation,
                               const PlanRequest& given_request) {
  PlanRequest request = given_request;
  request.count_bytes = false;
  for (const std::string& dim : program.dim_names())
    if (!explanation.dims.contains(dim))
      return usage_error(fmt::format("expected a value for each dimension, found none for {}", dim),
                         fmt::format("-d {}=16", dim));
  double bound_s = explanation.total.time_lower_s.value_or(0);
  std::vector<std::string> without_model;
  if (has_planner(explanation.machine)) {
    RIDGE_TRY(planned, predict_program(program, explanation, request));
    bound_s = planned.bound.time_lower_s.value_or(bound_s);
    without_model = list_loops(program, planned);
  }
  const auto current = predict_seconds(program, explanation, request);
  if (!current)
    return input_error(fmt::format("cannot predict the time of the program: {} has no {}", explanation.machine.name,
                                   explanation.total.missing));
  AdviceList out{.predicted_s = *current,
                 .program = print_program(with_sizes(program, explanation.dims)),
                 .bound_s = bound_s,
                 .without_model = std::move(without_model),
                 .advice = {}};
  RIDGE_TRY_STATUS(add_fusion_advice(program, explanation, request, out));
  add_variant_advice(program, explanation, request, out);
  add_bound_advice(program, explanation, out);
  std::erase_if(out.advice, [&](const Advice& x) {
    return x.gain_s.expected < min_gain_fraction * current->expected || x.gain_s.low <= 0;
  });
  std::stable_sort(out.advice.begin(), out.advice.end(),
                   [](const Advice& a, const Advice& b) { return a.gain_s.expected > b.gain_s.expected; });
  return out;
}

}  // namespace ridge
