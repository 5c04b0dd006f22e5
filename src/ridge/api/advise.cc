// Advice with the commands that confirm it, and the confirming itself: both programs in turn on this CPU, one after the
// other on a CUDA device.
#include <fmt/format.h>

#include "ridge/api/command.h"
#include "ridge/api/facade.h"
#include "ridge/api/task.h"
#include "ridge/plan/advise.h"

namespace ridge::api {
namespace {

// A device that is asked for as "cuda" was found, or there would be no advice.
bool runs_here(const Request& request) { return request.on.where() == Where::cpu || request.on.where() == Where::cuda; }

std::string command_of(const Request& request, const Advices& all, const Advice& advice) {
  if (advice.variant.empty()) {
    if (advice.options == "--plan") return "ridge run " + shell_word(all.program) + " --on " + request.on.name();
    return explain_command(request, {}, advice.options);
  }
  if (request.on.where() == Where::cpu)
    return fmt::format("ridge run {} --against {}", shell_word(all.program), shell_word(advice.variant));
  if (request.on.where() == Where::cuda) return fmt::format("ridge run {} --on cuda", shell_word(advice.variant));
  return fmt::format("ridge explain {} --on {} --plan", shell_word(advice.variant), shell_word(request.on.name()));
}

Request of_text(const Request& request, const std::string& text) {
  Request out;
  out.program = text;
  out.on = request.on;
  return out;
}

Result<MedianInterval> ratio_of(const Request& request, const Advices& all, const Advice& advice,
                                const RunRequest& how) {
  Request first = of_text(request, all.program);
  first.fuse = request.fuse;
  if (!advice.variant.empty() && request.fuse && request.on.where() == Where::cpu) {
    const auto both = run_against(first, advice.variant, how);
    return both ? Result(both->ratio) : both.error();
  }
  const auto before = api::run(first, how);
  const auto after = api::run(of_text(request, advice.variant.empty() ? all.program : advice.variant), how);
  if (!before) return before.error();
  if (!after) return after.error();
  const Statistics &x = before->measured->total.time, &y = after->measured->total.time;
  return MedianInterval{y.median / x.median, y.min / x.max, y.max / x.min, 1};
}

Status confirm(const Request& request, const Advices& all, const RunRequest& how, AdviceStep& step) {
  const auto ratio = ratio_of(request, all, step.advice, how);
  if (!ratio) return ratio.error();
  const Interval& said = step.advice.gain_s;
  Confirmation found{.ratio = *ratio};
  found.gain_s = all.predicted_s.expected * (1 - ratio->median / step.advice.work);
  found.came_true = found.gain_s > 0;
  found.is_within = said.low <= found.gain_s && found.gain_s <= said.high;
  step.confirmation = found;
  return Done{};
}

// What can run: a kernel takes the variant here.
bool is_confirmable(const Request& request, const Advice& advice) {
  if (!runs_here(request)) return false;
  return !advice.variant.empty() || advice.options == "--plan";
}

}  // namespace

Result<AdviceReport> advise(const Request& request, const std::optional<RunRequest>& confirming) {
  const auto task = understood(request);
  if (!task) return task.error();
  const auto report = counted(*task, request.dims, request);
  if (!report) return report.error();
  const auto all = ridge::advise(task->program, report->explanation, {Library::ridge, request.fuse});
  if (!all) return all.error();
  AdviceReport out{.title = task->title,
                   .machine = task->machine.name,
                   .machine_title = task->machine.title,
                   .program = all->program,
                   .predicted_s = all->predicted_s,
                   .bound_s = all->bound_s};
  for (const Advice& advice : all->advice) {
    out.steps.push_back({advice, command_of(request, *all, advice), is_confirmable(request, advice)});
    if (!confirming || !out.steps.back().is_confirmable) continue;
    if (const Status done = confirm(request, *all, *confirming, out.steps.back()); !done) return done.error();
  }
  return out;
}

std::vector<SuggestedStep> suggested(const Request& request, const Advices& all) {
  std::vector<SuggestedStep> out;
  for (const Advice& advice : all.advice)
    out.push_back({NextStep{.what = advice.what,
                            .gain_s = advice.gain_s.expected,
                            .time_s = all.predicted_s.expected - advice.gain_s.expected,
                            .options = advice.options,
                            .dims = {}},
                   command_of(request, all, advice)});
  return out;
}

}  // namespace ridge::api
