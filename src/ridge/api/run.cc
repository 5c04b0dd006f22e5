// Runs of one program, and of two programs with alternating passes.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/resolve_request.h"
#include "ridge/api/tune_options.h"
#include "ridge/base/contains.h"
#include "ridge/plan/predict.h"

namespace ridge::api {
RunOptions make_run_options(const Request& request, const RunRequest& run_request) {
  return {.in = run_request.in,
          .out = run_request.out,
          .seed = run_request.seed,
          .threads = run_request.threads,
          .cuda = request.on.where() == RunTarget::cuda,
          .fuse = request.fuse,
          .passes = run_request.passes,
          .seconds = run_request.seconds,
          .tune = to_tune_options(run_request.tuning),
          .progress = run_request.progress};
}

namespace {

// A resolved program with its report and plan.
struct PreparedRun {
  ResolvedRequest resolved;
  Report report;
  PlannedRun planned;
};

Status check_machine(const Request& request) {
  const std::vector<std::string> catalog = catalog_names();
  const std::string& on = request.on.name();
  if (contains(catalog, on))
    return usage_error(
        fmt::format("run uses this computer; expected --on cpu, --on cuda or this CPU's machine file, found '{}'", on),
        fmt::format("`ridge explain --on {}` predicts times on that machine", on));
  return Done{};
}

Result<PreparedRun> prepare_run(const Request& request, const RunRequest& run_request, const RunOptions& options) {
  RIDGE_TRY_STATUS(check_machine(request));
  RIDGE_TRY(resolved, resolve_request(request));
  if (request.on.where() == RunTarget::cpu && run_request.threads > 0)
    resolved.machine = limit_to_threads(std::move(resolved.machine), run_request.threads);
  RIDGE_TRY(report, make_basic_report(resolved, request.dims, request));
  RIDGE_TRY(planned, plan_run(resolved.program, report.explanation, options));
  report.verb = "run";
  return PreparedRun{std::move(resolved), std::move(report), std::move(planned)};
}

Report make_measured_report(PreparedRun prepared, Measurement measurement) {
  prepared.report.explanation = std::move(prepared.planned.explanation);
  prepared.report.measured = std::move(measurement);
  return std::move(prepared.report);
}

// Adds the predicted overheads; the last one, of unknown cause, absorbs the difference to the measured time.
void add_overheads(const PlannedProgram& planned, Report& report) {
  const std::vector<OpMeasurement>& ops = report.measured->ops;
  if (ops.size() != planned.kernels.size()) return;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const GroupPrediction& plan = planned.kernels[i];
    report.measured_overheads.push_back({plan.roofline_s, plan.overheads});
    report.measured_overheads.back().overheads.back().seconds += ops[i].time.median - plan.predicted_s.expected;
  }
}

// Adds the times that the planner expects, if it plans the kernels that ran.
void add_predicted_times(const PlannedProgram& planned, Report& report) {
  std::vector<OpMeasurement>& ops = report.measured->ops;
  if (ops.size() != planned.kernels.size()) return;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (planned.kernels[i].has_model) ops[i].predicted_s = planned.kernels[i].predicted_s.expected;
  if (planned.has_model) report.measured->total.predicted_s = planned.predicted_s.expected;
}

}  // namespace

Result<Report> run(const Request& request, const RunRequest& run_request) {
  const RunOptions options = make_run_options(request, run_request);
  RIDGE_TRY(prepared, prepare_run(request, run_request, options));
  RIDGE_TRY(result, ridge::run_program(prepared.resolved.program, prepared.planned, options));
  const auto planned = predict_program(prepared.resolved.program, prepared.report.explanation,
                                       {.library = KernelLibrary::ridge,
                                        .fuse = request.fuse,
                                        .with_overheads = request.why,
                                        .count_bytes = request.why});
  if (request.why) RIDGE_TRY_STATUS(planned);
  Report report = make_measured_report(std::move(prepared), std::move(result));
  if (!planned) return report;
  add_predicted_times(*planned, report);
  if (request.why) add_overheads(*planned, report);
  return report;
}

Result<PairedRun> run_alternating(const Request& request, const std::string& other, const RunRequest& run_request) {
  const RunOptions options = make_run_options(request, run_request);
  if (options.cuda || !run_request.in.empty() || !run_request.out.empty())
    return usage_error(
        "expected --against without --on cuda, --in and --out: both programs run on this CPU on random "
        "inputs");
  Request second = request;
  second.program = other;
  RIDGE_TRY(a, prepare_run(request, run_request, options));
  RIDGE_TRY(b, prepare_run(second, run_request, options));
  RIDGE_TRY(both, run_paired({a.resolved.program, a.planned}, {b.resolved.program, b.planned}, options));
  return PairedRun{make_measured_report(std::move(a), std::move(both.first)),
                   make_measured_report(std::move(b), std::move(both.second)), both.ratio};
}

}  // namespace ridge::api
