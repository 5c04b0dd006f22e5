// Advice with the commands that confirm it, and the confirmation runs: on this CPU passes of both programs alternate,
// on a CUDA device the programs run one after the other.
#include <fmt/format.h>

#include "ridge/api/command.h"
#include "ridge/api/facade.h"
#include "ridge/api/resolve_request.h"
#include "ridge/plan/advise.h"

namespace ridge::api {
namespace {

// True if this computer can run the request. For "cuda", advice exists only if the device was found.
bool is_local_machine(const Request& request) {
  return request.on.where() == RunTarget::cpu || request.on.where() == RunTarget::cuda;
}

std::string make_confirming_command(const Request& request, const AdviceList& advices, const Advice& advice) {
  if (advice.variant.empty()) {
    if (advice.explain_options == "--plan")
      return "ridge run " + quote_for_shell(advices.program) + " --on " + request.on.name();
    return explain_command(request, {}, advice.explain_options);
  }
  if (request.on.where() == RunTarget::cpu)
    return fmt::format("ridge run {} --against {}", quote_for_shell(advices.program), quote_for_shell(advice.variant));
  if (request.on.where() == RunTarget::cuda)
    return fmt::format("ridge run {} --on cuda", quote_for_shell(advice.variant));
  return fmt::format("ridge explain {} --on {} --plan", quote_for_shell(advice.variant),
                     quote_for_shell(request.on.name()));
}

Request request_of_text(const Request& request, const std::string& text) {
  Request out;
  out.program = text;
  out.on = request.on;
  return out;
}

Result<MedianInterval> measure_ratio(const Request& request, const AdviceList& advices, const Advice& advice,
                                     const RunRequest& run_request) {
  Request first = request_of_text(request, advices.program);
  first.fuse = request.fuse;
  if (!advice.variant.empty() && request.fuse && request.on.where() == RunTarget::cpu) {
    RIDGE_TRY(both, run_alternating(first, advice.variant, run_request));
    return both.ratio;
  }
  RIDGE_TRY(before, api::run(first, run_request));
  RIDGE_TRY(after,
            api::run(request_of_text(request, advice.variant.empty() ? advices.program : advice.variant), run_request));
  const Statistics &x = before.measured->total.time, &y = after.measured->total.time;
  return MedianInterval{y.median / x.median, y.min / x.max, y.max / x.min, 1};
}

Status confirm_advice(const Request& request, const AdviceList& advices, const RunRequest& run_request,
                      AdviceStep& advice_step) {
  RIDGE_TRY(ratio, measure_ratio(request, advices, advice_step.advice, run_request));
  const Interval& predicted_gain_s = advice_step.advice.gain_s;
  Confirmation found{.ratio = ratio};
  found.gain_s = advices.predicted_s.expected * (1 - ratio.median / advice_step.advice.work_ratio);
  found.is_confirmed = found.gain_s > 0;
  found.is_within_interval = predicted_gain_s.low <= found.gain_s && found.gain_s <= predicted_gain_s.high;
  advice_step.confirmation = found;
  return Done{};
}

// True if this computer has a kernel for the advice.
bool is_confirmable(const Request& request, const Advice& advice) {
  if (!is_local_machine(request)) return false;
  return !advice.variant.empty() || advice.explain_options == "--plan";
}

}  // namespace

Result<AdviceReport> advise(const Request& request, const std::optional<RunRequest>& confirming) {
  RIDGE_TRY(resolved, resolve_request(request));
  RIDGE_TRY(report, make_basic_report(resolved, request.dims, request));
  RIDGE_TRY(advices, ridge::make_advice(resolved.program, report.explanation, {KernelLibrary::ridge, request.fuse}));
  AdviceReport out{.title = resolved.title,
                   .machine = resolved.machine.name,
                   .machine_title = resolved.machine.title,
                   .program = advices.program,
                   .predicted_s = advices.predicted_s,
                   .roofline_bound_s = advices.bound_s,
                   .without_model = advices.without_model};
  for (const Advice& advice : advices.advice) {
    out.steps.push_back({advice, make_confirming_command(request, advices, advice), is_confirmable(request, advice)});
    if (!confirming || !out.steps.back().is_confirmable) continue;
    RIDGE_TRY_STATUS(confirm_advice(request, advices, *confirming, out.steps.back()));
  }
  return out;
}

std::vector<SuggestedStep> to_suggested_steps(const Request& request, const AdviceList& advices) {
  std::vector<SuggestedStep> out;
  for (const Advice& advice : advices.advice)
    out.push_back({NextStep{.description = advice.description,
                            .gain_s = advice.gain_s.expected,
                            .time_s = advices.predicted_s.expected - advice.gain_s.expected,
                            .options = advice.explain_options,
                            .dims = {}},
                   make_confirming_command(request, advices, advice)});
  return out;
}

}  // namespace ridge::api
