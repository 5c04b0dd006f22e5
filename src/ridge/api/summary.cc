// Converts reports to the summaries of ridge.h.
#include "ridge/api/facade.h"

namespace ridge {
namespace {

std::optional<std::int64_t> to_int64(const std::optional<Count>& count) {
  if (!count || *count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*count);
}

OpSummary to_summary(const Prediction& p, const std::vector<std::string>& order) {
  OpSummary out{.name = p.work.name,
                .text = p.work.text,
                .flops = to_int64(p.flops),
                .bytes = to_int64(p.bytes),
                .intensity = p.intensity,
                .ridge = p.ridge,
                .flops_formula = p.work.flops.to_string(order),
                .bytes_formula = p.work.bytes().to_string(order),
                .intensity_formula = p.intensity_formula,
                .limiter = p.limiter};
  out.math_s = p.time_math_s;
  out.memory_s = p.time_memory_s;
  out.network_s = p.time_network_s;
  out.lower_s = p.time_lower_s;
  out.upper_s = p.time_upper_s;
  out.missing = p.missing;
  out.thresholds = p.thresholds;
  return out;
}

MeasuredTime to_summary(const OpMeasurement& m) {
  return {.median_s = m.time.median,
          .min_s = m.time.min,
          .max_s = m.time.max,
          .runs = m.time.runs,
          .fraction_of_roof = m.fraction_of_roof,
          .max_rel_error = m.max_rel_error,
          .note = m.note,
          .warnings = m.warnings};
}

std::vector<KernelSummary> to_summary(const PlannedProgram& planned, const Explanation& explanation) {
  std::vector<KernelSummary> out;
  for (std::size_t i = 0; i < planned.kernels.size(); ++i) {
    const GroupPrediction& kernel = planned.kernels[i];
    KernelSummary each{.results = {},
                       .kernel = kernel.plan.kernel,
                       .low_s = kernel.predicted_s.low,
                       .expected_s = kernel.predicted_s.expected,
                       .high_s = kernel.predicted_s.high,
                       .memory_bytes = kernel.memory_bytes};
    for (const int statement : planned.fusion.groups[i].statements)
      each.results.push_back(explanation.ops[statement].work.name);
    out.push_back(std::move(each));
  }
  return out;
}

Summary to_summary(Report report) {
  const Explanation& e = report.explanation;
  Summary out{.title = report.title, .machine = e.machine, .dims = e.dims, .ops = {}, .total = {}, .report = {}};
  for (const Prediction& op : e.ops) out.ops.push_back(to_summary(op, e.dim_names));
  out.total = to_summary(e.total, e.dim_names);
  if (e.fused) out.fused = to_summary(*e.fused, e.dim_names);
  if (report.planned) out.planned = to_summary(*report.planned, e);
  if (report.measured) {
    for (std::size_t i = 0; i < out.ops.size(); ++i) out.ops[i].measured = to_summary(report.measured->ops[i]);
    out.total.measured = to_summary(report.measured->total);
    out.mismatch = report.measured->mismatch;
  }
  out.report = std::make_shared<const Report>(std::move(report));
  return out;
}

Result<Summary> summarize_result(Result<Report> report) {
  RIDGE_TRY_STATUS(report);
  return to_summary(*std::move(report));
}

}  // namespace

Result<Summary> explain(const Request& request) { return summarize_result(api::explain(request)); }
Result<Summary> explain(const BareWork& work) { return summarize_result(api::explain(work)); }
Result<Summary> run(const Request& request, const RunRequest& run_request) {
  return summarize_result(api::run(request, run_request));
}

Result<std::vector<Summary>> explain_each(const Request& request, const std::vector<Bindings>& rows) {
  RIDGE_TRY(reports, api::explain_each(request, rows));
  std::vector<Summary> out;
  for (Report& report : reports) out.push_back(to_summary(std::move(report)));
  return out;
}

std::string render_text(const Summary& summary, bool color) { return render_text(*summary.report, {color}); }
std::string render_json(const Summary& summary) { return render_json(*summary.report); }
std::string render_svg(const Summary& summary) { return render_svg(*summary.report); }

}  // namespace ridge
