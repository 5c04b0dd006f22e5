#include "ridge/plan/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/ops/fitted.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/variants.h"
#include "ridge/roofline/next.h"

namespace ridge {
namespace {

bool has_planner(const Machine& machine) { return machine.name == "cpu" || device_numbers(machine); }

// Returns the planner's prediction, or, without a planner, the bounds with perfect overlap and without overlap.
std::optional<Interval> time_of(const Program& program, const Explanation& explanation, const PlanRequest& request) {
  if (has_planner(explanation.machine)) {
    const auto planned = predict(program, explanation, request);
    return planned ? std::optional(planned->predicted_s) : std::nullopt;
  }
  const Prediction& total = explanation.total;
  if (!total.time_lower_s || !total.time_upper_s) return std::nullopt;
  return Interval{*total.time_lower_s, *total.time_lower_s, *total.time_upper_s};
}

// Returns the spread of measured over predicted ratios of two times; a ratio is more certain than either time.
ops::Spread spread_of(const Machine& machine, const std::string& kind) {
  const auto device = device_numbers(machine);
  return ops::spread_of((device ? "device_advice_" : "advice_") + kind);
}
Interval gain_of(const Interval& now, double then_s, double work, const ops::Spread& spread) {
  const auto gain = [&](double off) { return now.expected - off * then_s / work; };
  return {gain(spread.high), gain(spread.middle), gain(spread.low)};
}

void add_variants(const Program& program, const Explanation& explanation, const PlanRequest& request, Advices& out) {
  const auto planned = has_planner(explanation.machine) ? predict(program, explanation, request)
                                                        : Result<PlannedProgram>(usage_error(""));
  for (const Variant& variant : variants(program, explanation, planned ? &*planned : nullptr)) {
    const auto other = explain(variant.program, explanation.machine, variant.dims, {}, Thresholds::left_out);
    const auto seconds = other ? time_of(variant.program, *other, request) : std::nullopt;
    if (!seconds) continue;
    out.advice.push_back({.kind = variant.kind,
                          .what = variant.what,
                          .gain_s = gain_of(out.predicted_s, seconds->expected, variant.work,
                                            spread_of(explanation.machine, variant.kind)),
                          .variant = print(with_sizes(variant.program, variant.dims)),
                          .work = variant.work,
                          .options = {}});
  }
}

// Adds advice that no program on one device can confirm: several chips that communicate, and weight dtypes without a
// kernel. The gain comes from the bounds, with and without overlap.
void add_bounds(const Program& program, const Explanation& explanation, Advices& out) {
  const Prediction& total = explanation.total;
  if (!total.time_lower_s || *total.time_lower_s <= 0) return;
  const double scale = out.predicted_s.expected / *total.time_lower_s;
  for (const NextStep& step : next_steps(program, explanation, {})) {
    const bool is_shown = std::any_of(out.advice.begin(), out.advice.end(), [&](const Advice& x) {
      return step.options.starts_with("--weights") && x.what == "store the weights in int8";
    });
    const bool is_part =
        step.options.starts_with("--split") &&
        std::any_of(out.advice.begin(), out.advice.end(), [](const Advice& x) { return x.kind == "chips"; });
    if (!step.gain_s || is_shown || is_part || step.options.starts_with("--fuse")) continue;
    const double gain = *step.gain_s * scale;
    out.advice.push_back({.kind = "bound",
                          .what = step.what,
                          .gain_s = {*step.gain_s / std::max(1.0, scale), gain, std::max(gain, *step.gain_s)},
                          .variant = {},
                          .work = 1,
                          .options = step.options});
  }
}

// If the request runs each statement as its own kernel, adds fusion as advice.
Status add_sharing(const Program& program, const Explanation& explanation, const PlanRequest& request, Advices& out) {
  if (request.fuse || !has_planner(explanation.machine)) return Done{};
  const auto shared = predict(program, explanation, {.library = request.library, .bytes = false});
  if (!shared) return shared.error();
  out.advice.push_back(
      {.kind = "sharing",
       .what = "fuse statements into shared kernels",
       .gain_s = gain_of(out.predicted_s, shared->predicted_s.expected, 1, spread_of(explanation.machine, "sharing")),
       .variant = {},
       .work = 1,
       .options = "--plan"});
  return Done{};
}

}  // namespace

Result<Advices> advise(const Program& program, const Explanation& explanation, const PlanRequest& asked) {
  PlanRequest request = asked;
  request.bytes = false;
  for (const std::string& dim : program.dim_names())
    if (!explanation.dims.contains(dim))
      return usage_error(fmt::format("expected a value for each dimension, found none for {}", dim),
                         fmt::format("-d {}=16", dim));
  if (has_planner(explanation.machine))
    if (const auto planned = predict(program, explanation, request); !planned) return planned.error();
  const auto now = time_of(program, explanation, request);
  if (!now)
    return input_error(fmt::format("cannot predict the time of the program: {} has no {}", explanation.machine.name,
                                   explanation.total.missing));
  Advices out{.predicted_s = *now,
              .program = print(with_sizes(program, explanation.dims)),
              .bound_s = explanation.total.time_lower_s.value_or(0),
              .advice = {}};
  if (const Status added = add_sharing(program, explanation, request, out); !added) return added.error();
  add_variants(program, explanation, request, out);
  add_bounds(program, explanation, out);
  std::erase_if(out.advice,
                [&](const Advice& x) { return x.gain_s.expected < least_gain * now->expected || x.gain_s.low <= 0; });
  std::stable_sort(out.advice.begin(), out.advice.end(),
                   [](const Advice& a, const Advice& b) { return a.gain_s.expected > b.gain_s.expected; });
  return out;
}

}  // namespace ridge
