#include "ridge/report/contest/device_contest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/base/version.h"
#include "ridge/machine/system.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

std::string cublas_version(std::size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

Json times(const Statistics& s) {
  if (s.runs == 0) return nullptr;
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"runs", s.runs}};
}

Json clocks_json(const std::optional<DeviceClocks>& c) {
  if (!c) return nullptr;
  return {{"sm_hz", c->sm_hz},
          {"most_sm_hz", c->most_sm_hz},
          {"memory_hz", c->memory_hz},
          {"power_w", c->power_w},
          {"slowed_by", c->slowed_by}};
}

Json plan_json(const ops::cuda::MatmulPlan& plan) {
  return {{"kernel", ops::cuda::plan_name(plan)},
          {"split", plan.splits},
          {"split_mode", ops::cuda::split_text(plan.split_mode).word},
          {"waves", plan.waves},
          {"copies", static_cast<int>(plan.copy_a) + static_cast<int>(plan.copy_b)}};
}

Json row_json(const DeviceContestRow& row) {
  const ContestShape& s = row.shape;
  Json out{{"op", s.op}, {"dtype", name(s.dtype)}, {"out", name(s.out)}, {"m", s.m}, {"n", s.n}, {"k", s.k}};
  out["ours_s"] = times(row.ours);
  out["first_s"] = times(row.first);
  out["best_s"] = times(row.best);
  out["best_heuristic"] = row.best_heuristic;
  out["ratio"] = row.ratio;
  out["ratio_first"] = row.ratio_first;
  out["predicted_s"] = row.plan.predicted_s;
  out["plan"] = plan_json(row.plan);
  if (!row.tuned.empty()) {
    out["tuned_ratio"] = row.tuned_ratio;
    for (const TunedPlan& each : row.tuned) {
      Json json = plan_json(each.plan);
      json["predicted_s"] = each.plan.predicted_s;
      json["measured_s"] = each.seconds;
      out["tuned"].push_back(std::move(json));
    }
  }
  out["sm_hz"] = row.sm_hz > 0 ? Json(row.sm_hz) : Json(nullptr);
  out["flops_per_cycle"] = row.flops_per_cycle > 0 ? Json(row.flops_per_cycle) : Json(nullptr);
  out["per_cycle"] = row.per_cycle() > 0 ? Json(row.per_cycle()) : Json(nullptr);
  out["right"] = row.right;
  out["worst_error"] = row.worst_error;
  return out;
}

std::string share(double x) { return x > 0 ? fmt::format("{:.0f} %", 100 * x) : "-"; }

}  // namespace

std::string device_contest_text(const DeviceContest& contest) {
  std::vector<std::vector<std::string>> rows{{"op", "dtype", "m", "n", "k", "first", "best of 8", "ridge", "ratio",
                                              "per cycle", "predicted", "kernel", "split", ""}};
  for (const DeviceContestRow& row : contest.rows) {
    const ContestShape& s = row.shape;
    const auto time = [](const Statistics& t) { return t.runs == 0 ? "-" : engineering(t.median, "s"); };
    rows.push_back({s.op, std::string(name(s.dtype)), std::to_string(s.m), std::to_string(s.n), std::to_string(s.k),
                    time(row.first), time(row.best), time(row.ours),
                    row.ratio > 0 ? fmt::format("{:.3f}", row.ratio) : "-", share(row.per_cycle()),
                    engineering(row.plan.predicted_s, "s"), ops::cuda::plan_name(row.plan),
                    std::to_string(row.plan.splits), row.right ? "" : "WRONG"});
  }
  std::string out =
      aligned(rows, {false, false, true, true, true, true, true, true, true, true, true, false, true, false});
  out += fmt::format(
      "\nmedians of {} interleaved rounds, cold L2; ratio: cuBLASLt's best of 8 over ridge\nper cycle: ridge's FLOPs "
      "over the matrix units' peak at the clock that NVML reads after the row's last turn\n",
      contest.rounds);
  std::vector<std::vector<std::string>> classes{{"class", "rows", "geometric mean", "tuned", "against first", "5 %",
                                                 "worst", "per cycle", "prediction off by", "wrong"}};
  for (const DeviceContestClass& c : contest.classes())
    classes.push_back({c.name, std::to_string(c.rows), fmt::format("{:.4f}", c.geometric_mean),
                       c.tuned > 0 ? fmt::format("{:.4f}", c.tuned) : "-",
                       fmt::format("{:.4f}", c.geometric_mean_first), fmt::format("{:.3f}", c.percentile_5),
                       fmt::format("{:.3f}", c.worst), share(c.per_cycle),
                       fmt::format("{:.1f} %", 100 * c.prediction_error), std::to_string(c.wrong)});
  out += aligned(classes, {false, true, true, true, true, true, true, true, true, true});
  if (!contest.passed_over.empty())
    out +=
        fmt::format("skipped {} rows: neither bf16 nor f16, or larger than the pool\n", contest.passed_over.size());
  out += fmt::format("{}, driver {}.{}, cuBLASLt {}\n", contest.device, contest.driver / 1000,
                     contest.driver % 1000 / 10, cublas_version(contest.baseline_version));
  if (contest.after)
    out +=
        fmt::format("clock {} of {}, {:.0f} W{}{}\n", engineering(contest.after->sm_hz, "Hz"),
                    engineering(contest.after->most_sm_hz, "Hz"), contest.after->power_w,
                    contest.after->slowed_by.empty() ? "" : ", limited by: ", fmt::join(contest.after->slowed_by, ", "));
  return out;
}

std::string device_contest_json(const DeviceContest& contest) {
  Json out{{"schema", "ridge.device_contest/2"}, {"version", version()}, {"commit", commit()}, {"day", today()}};
  out["device"] = contest.device;
  out["driver"] = contest.driver;
  out["baseline"] = {{"library", "cuBLASLt"}, {"version", cublas_version(contest.baseline_version)}, {"heuristics", 8}};
  out["rounds"] = contest.rounds;
  out["clocks"] = {{"before", clocks_json(contest.before)}, {"after", clocks_json(contest.after)}};
  out["classes"] = Json::array();
  for (const DeviceContestClass& c : contest.classes())
    out["classes"].push_back({{"name", c.name},
                              {"rows", c.rows},
                              {"geometric_mean", c.geometric_mean},
                              {"geometric_mean_tuned", c.tuned > 0 ? Json(c.tuned) : Json(nullptr)},
                              {"geometric_mean_first", c.geometric_mean_first},
                              {"percentile_5", c.percentile_5},
                              {"worst", c.worst},
                              {"per_cycle", c.per_cycle > 0 ? Json(c.per_cycle) : Json(nullptr)},
                              {"prediction_error", c.prediction_error},
                              {"wrong", c.wrong}});
  out["rows"] = Json::array();
  for (const DeviceContestRow& row : contest.rows) out["rows"].push_back(row_json(row));
  out["passed_over"] = contest.passed_over.size();
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
