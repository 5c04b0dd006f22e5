#include "ridge/bench/repeats_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

Json timing_json(const RepeatsPoint& point, const RepeatsTiming& w) {
  return {{"measured_s", {{"median", w.time.median}, {"min", w.time.min}, {"max", w.time.max}, {"runs", w.time.runs}}},
          {"predicted_s", {{"low", w.predicted.low}, {"expected", w.predicted.expected}, {"high", w.predicted.high}}},
          {"flops_per_s", point.flops / w.time.median},
          {"bytes_per_s", w.bytes / w.time.median},
          {"bytes", w.bytes},
          {"max_rel_error", w.error}};
}

std::string describe_target(const RepeatsBenchmark& r) {
  if (r.driver > 0) return fmt::format("driver {}.{}, {}", r.driver / 1000, r.driver % 1000 / 10, r.kernel_isa);
  return fmt::format("{} thread{}, {}", r.threads, r.threads == 1 ? "" : "s", r.kernel_isa);
}

// Returns the origin of the rates behind the prediction: "guessed" if the machine was not measured.
Origin prediction_origin(const Machine& machine) {
  const Peak* const peak = machine.find_peak(ComputeUnit::vector, DType::f32);
  return peak ? peak->rate.origin : Origin::guessed;
}

}  // namespace

std::string format_repeats(const RepeatsBenchmark& r, const TextStyle& style) {
  Cells cells{{"repeats", "one kernel", "predicted", "FLOP/s", "B/s", "per repeat", "predicted", "FLOP/s", "B/s"}};
  for (const RepeatsPoint& p : r.points) {
    cells.push_back({std::to_string(p.repeats)});
    for (const RepeatsTiming* w : {&p.fused, &p.unfused})
      for (const std::string& cell :
           {format_with_prefix(w->time.median, "s"), format_with_prefix(w->predicted.expected, "s"),
            format_with_prefix(p.flops / w->time.median, "FLOP/s"),
            format_with_prefix(w->bytes / w->time.median, "B/s")})
        cells.back().push_back(cell);
  }
  std::string out =
      text_table(cells, {.right = std::vector<bool>(cells[0].size(), true), .omit_first = {"B/s"}}, style);
  out +=
      fmt::format("\nmedian of {} rounds of a cosine (1 FLOP) of {} f32 elements, as one kernel and one per repeat\n",
                  r.rounds, group_digits(r.elements));
  out += fmt::format("{}, {}, {}\n", r.machine.title.empty() ? r.machine.name : r.machine.title, describe_target(r),
                     r.day);
  if (r.driver == 0 && prediction_origin(r.machine) == Origin::guessed)
    out += "predicted from guessed rates: `ridge probe` measures this machine\n";
  if (!r.note.empty()) out += "note: " + r.note + "\n";
  return out;
}

nlohmann::ordered_json repeats_json(const RepeatsBenchmark& r) {
  Json out{
      {"schema", "ridge.repeats/1"},
      {"version", version()},
      {"commit", commit()},
      {"day", r.day},
      {"machine",
       {{"name", r.machine.name}, {"title", r.machine.title}, {"origin", origin_name(prediction_origin(r.machine))}}},
      {"kernels", r.kernel_isa},
      {"elements", r.elements},
      {"rounds", r.rounds},
      {"allowed_error", r.allowed_error}};
  if (r.driver > 0)
    out["driver"] = r.driver;
  else
    out["threads"] = r.threads;
  if (!r.note.empty()) out["note"] = r.note;
  if (r.clocks) out["clocks"] = {{"sm_hz", r.clocks->sm_hz}, {"slowed_by", r.clocks->throttle_reasons}};
  out["rows"] = Json::array();
  for (const RepeatsPoint& p : r.points)
    out["rows"].push_back({{"repeats", p.repeats},
                           {"flops", p.flops},
                           {"fused", timing_json(p, p.fused)},
                           {"unfused", timing_json(p, p.unfused)}});
  return out;
}

}  // namespace ridge
