// Runs of one program, and of two in turn.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/task.h"
#include "ridge/api/tune_options.h"
#include "ridge/plan/predict.h"

namespace ridge::api {
namespace {

// A program that was read, counted and planned for where it runs.
struct Ready {
  Task task;
  Report report;
  RunPlan planned;
};

Status check_machine(const Request& request) {
  const std::vector<std::string> catalog = catalog_names();
  const std::string& on = request.on.name();
  if (std::find(catalog.begin(), catalog.end(), on) != catalog.end())
    return usage_error(
        fmt::format("run measures what is here; expected --on cpu, --on cuda or this CPU's own file, found '{}'", on),
        fmt::format("ridge explain --on {} says what that machine would do", on));
  return Done{};
}

RunOptions options_of(const Request& request, const RunRequest& how) {
  return {.in = how.in,
          .out = how.out,
          .seed = how.seed,
          .threads = how.threads,
          .cuda = request.on.where() == Where::cuda,
          .fuse = request.fuse,
          .passes = how.passes,
          .seconds = how.seconds,
          .tune = tune_options(how.tuning),
          .progress = how.progress};
}

Result<Ready> ready(const Request& request, const RunRequest& how, const RunOptions& options) {
  if (const Status here = check_machine(request); !here) return here.error();
  auto task = understood(request);
  if (!task) return task.error();
  if (request.on.where() == Where::cpu && how.threads > 0)
    task->machine = seen_with_threads(std::move(task->machine), how.threads);
  auto report = counted(*task, request.dims, request);
  if (!report) return report.error();
  auto planned = plan_run(task->program, report->explanation, options);
  if (!planned) return planned.error();
  report->verb = "run";
  return Ready{*std::move(task), *std::move(report), *std::move(planned)};
}

Report measured(Ready ready, Measurement measurement) {
  ready.report.explanation = std::move(ready.planned.explanation);
  ready.report.measured = std::move(measurement);
  return std::move(ready.report);
}

// What is predicted of the plan; the time that was measured beyond that is unknown.
void add_losses(const PlannedProgram& planned, Report& report) {
  const std::vector<OpMeasurement>& ops = report.measured->ops;
  if (ops.size() != planned.kernels.size()) return;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpPlan& plan = planned.kernels[i];
    report.losses.push_back({plan.roof_s, plan.lost});
    report.losses.back().lost.back().seconds += ops[i].time.median - plan.predicted_s.expected;
  }
}

}  // namespace

Result<Report> run(const Request& request, const RunRequest& how) {
  const RunOptions options = options_of(request, how);
  auto one = ready(request, how, options);
  if (!one) return one.error();
  auto result = ridge::run(one->task.program, one->planned, options);
  if (!result) return result.error();
  if (!request.why) return measured(*std::move(one), *std::move(result));
  auto planned = predict(one->task.program, one->report.explanation, {Library::ridge, request.fuse, true});
  if (!planned) return planned.error();
  Report report = measured(*std::move(one), *std::move(result));
  add_losses(*planned, report);
  return report;
}

Result<RunTogether> run_against(const Request& request, const std::string& other, const RunRequest& how) {
  const RunOptions options = options_of(request, how);
  if (options.cuda || !how.in.empty() || !how.out.empty())
    return usage_error(
        "expected --against without --on cuda, --in and --out: both programs run on this CPU on random "
        "inputs");
  Request second = request;
  second.program = other;
  auto a = ready(request, how, options), b = ready(second, how, options);
  if (!a) return a.error();
  if (!b) return b.error();
  auto both = run_together({a->task.program, a->planned}, {b->task.program, b->planned}, options);
  if (!both) return both.error();
  return RunTogether{measured(*std::move(a), std::move(both->first)), measured(*std::move(b), std::move(both->second)),
                     both->ratio};
}

}  // namespace ridge::api
