#include "ridge/bench/device_benchmark_report.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/machine/system.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

std::string cublas_version(std::size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

Json times_json(const Statistics& s) {
  if (s.runs == 0) return nullptr;
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"runs", s.runs}};
}

Json clocks_json(const std::optional<DeviceClocks>& c) {
  if (!c) return nullptr;
  return {{"sm_hz", c->sm_hz},
          {"most_sm_hz", c->max_sm_hz},
          {"memory_hz", c->memory_hz},
          {"power_w", c->power_w},
          {"slowed_by", c->throttle_reasons}};
}

Json plan_json(const ops::cuda::MatmulPlan& plan) {
  return {{"kernel", ops::cuda::plan_name(plan)},
          {"split", plan.splits},
          {"split_mode", ops::cuda::describe_split(plan.split_mode).name},
          {"waves", plan.waves},
          {"copies", static_cast<int>(plan.copy_a) + static_cast<int>(plan.copy_b)}};
}

Json row_json(const DeviceBenchmarkRow& row) {
  const BenchmarkShape& s = row.shape;
  Json out{{"op", s.op}, {"dtype", dtype_name(s.dtype)}, {"out", dtype_name(s.out)}, {"m", s.m}, {"n", s.n},
           {"k", s.k}};
  out["ours_s"] = times_json(row.ridge_time);
  out["first_s"] = times_json(row.first_heuristic_time);
  out["best_s"] = times_json(row.best_heuristic_time);
  out["best_heuristic"] = row.best_heuristic;
  out["ratio"] = row.ratio;
  out["ratio_first"] = row.ratio_to_first;
  out["predicted_s"] = row.plan.predicted_s;
  out["plan"] = plan_json(row.plan);
  if (!row.candidates.empty()) {
    out["tuned_ratio"] = row.tuned_ratio;
    for (const CandidateTime& each : row.candidates) {
      Json json = plan_json(each.plan);
      json["predicted_s"] = each.plan.predicted_s;
      json["measured_s"] = each.seconds;
      out["tuned"].push_back(std::move(json));
    }
  }
  out["sm_hz"] = positive_or_null(row.sm_hz);
  out["flops_per_cycle"] = positive_or_null(row.peak_flops_per_cycle);
  out["per_cycle"] = row.fraction_of_cycle_peak() > 0 ? Json(row.fraction_of_cycle_peak()) : Json(nullptr);
  out["right"] = row.is_correct;
  out["worst_error"] = row.error_over_bound;
  return out;
}

std::string format_percent(double x) { return x > 0 ? fmt::format("{:.0f} %", 100 * x) : "-"; }

}  // namespace

std::string format_device_benchmark(const DeviceBenchmark& benchmark, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{{"op", "dtype", "m", "n", "k", "first", "best of 8", "ridge", "ratio",
                                              "per cycle", "predicted", "kernel", "split", ""}};
  for (const DeviceBenchmarkRow& row : benchmark.rows) {
    const BenchmarkShape& s = row.shape;
    const auto time = [](const Statistics& t) { return t.runs == 0 ? "-" : format_with_prefix(t.median, "s"); };
    rows.push_back({s.op, std::string(dtype_name(s.dtype)), std::to_string(s.m), std::to_string(s.n),
                    std::to_string(s.k), time(row.first_heuristic_time), time(row.best_heuristic_time),
                    time(row.ridge_time), row.ratio > 0 ? fmt::format("{:.3f}", row.ratio) : "-",
                    format_percent(row.fraction_of_cycle_peak()), format_with_prefix(row.plan.predicted_s, "s"),
                    ops::cuda::plan_name(row.plan), std::to_string(row.plan.splits), row.is_correct ? "" : "WRONG"});
  }
  std::string out =
      text_table(rows,
                 {.right = {false, false, true, true, true, true, true, true, true, true, true, false, true, false},
                  .omit_first = {"split", "first", "per cycle", "predicted", "kernel", "dtype", "op"}},
                 style);
  out += fmt::format(
      "\nmedians of {} interleaved rounds, cold L2; ratio: cuBLASLt's best of 8 over ridge\nper cycle: ridge's FLOPs "
      "over the matrix units' peak at the clock that NVML reads after the row's last turn\n",
      benchmark.rounds);
  std::vector<std::vector<std::string>> classes{{"class", "rows", "geometric mean", "tuned", "against first", "5 %",
                                                 "worst", "per cycle", "prediction off by", "wrong"}};
  for (const DeviceBenchmarkSummary& c : benchmark.summarize_shape_classes())
    classes.push_back({c.name, std::to_string(c.rows), fmt::format("{:.4f}", c.geometric_mean),
                       c.tuned_geometric_mean > 0 ? fmt::format("{:.4f}", c.tuned_geometric_mean) : "-",
                       fmt::format("{:.4f}", c.geometric_mean_first), fmt::format("{:.3f}", c.percentile_5),
                       fmt::format("{:.3f}", c.worst_ratio), format_percent(c.fraction_of_cycle_peak),
                       fmt::format("{:.1f} %", 100 * c.prediction_error), std::to_string(c.wrong)});
  out += text_table(classes,
                    {.right = {false, true, true, true, true, true, true, true, true, true},
                     .omit_first = {"against first", "per cycle", "prediction off by", "5 %", "tuned"},
                     .is_in_csv = false},
                    style);
  if (!benchmark.skipped.empty())
    out += fmt::format("skipped {} rows: neither bf16 nor f16, or larger than the pool\n", benchmark.skipped.size());
  out += fmt::format("{}, driver {}.{}, cuBLASLt {}\n", benchmark.device, benchmark.driver / 1000,
                     benchmark.driver % 1000 / 10, cublas_version(benchmark.cublaslt_version));
  if (benchmark.clocks_after)
    out += fmt::format("clock {} of {}, {:.0f} W{}{}\n", format_with_prefix(benchmark.clocks_after->sm_hz, "Hz"),
                       format_with_prefix(benchmark.clocks_after->max_sm_hz, "Hz"), benchmark.clocks_after->power_w,
                       benchmark.clocks_after->throttle_reasons.empty() ? "" : ", limited by: ",
                       fmt::join(benchmark.clocks_after->throttle_reasons, ", "));
  return out;
}

std::string device_benchmark_json(const DeviceBenchmark& benchmark) {
  Json out{{"schema", "ridge.device_contest/2"}, {"version", version()}, {"commit", commit()}, {"day", today_utc()}};
  out["device"] = benchmark.device;
  out["driver"] = benchmark.driver;
  out["baseline"] = {
      {"library", "cuBLASLt"}, {"version", cublas_version(benchmark.cublaslt_version)}, {"heuristics", 8}};
  out["rounds"] = benchmark.rounds;
  out["clocks"] = {{"before", clocks_json(benchmark.clocks_before)}, {"after", clocks_json(benchmark.clocks_after)}};
  out["classes"] = Json::array();
  for (const DeviceBenchmarkSummary& c : benchmark.summarize_shape_classes())
    out["classes"].push_back({{"name", c.name},
                              {"rows", c.rows},
                              {"geometric_mean", c.geometric_mean},
                              {"geometric_mean_tuned", positive_or_null(c.tuned_geometric_mean)},
                              {"geometric_mean_first", c.geometric_mean_first},
                              {"percentile_5", c.percentile_5},
                              {"worst", c.worst_ratio},
                              {"per_cycle", positive_or_null(c.fraction_of_cycle_peak)},
                              {"prediction_error", c.prediction_error},
                              {"wrong", c.wrong}});
  out["rows"] = Json::array();
  for (const DeviceBenchmarkRow& row : benchmark.rows) out["rows"].push_back(row_json(row));
  out["passed_over"] = benchmark.skipped.size();
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
