#include "ridge/report/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/report/json_values.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::string title_line(const AdviceReport& report) {
  const Interval& current = report.predicted_s;
  if (!report.without_model.empty())
    return fmt::format("{} on {}: at least {}; {} {} as plain loops, whose time is not predicted\n", report.title,
                       report.machine_title, format_with_prefix(report.roofline_bound_s, "s"),
                       fmt::join(report.without_model, ", "), report.without_model.size() == 1 ? "runs" : "run");
  std::string out = fmt::format("{} on {}: {} predicted, {} .. {}", report.title, report.machine_title,
                                format_with_prefix(current.expected, "s"), format_with_prefix(current.low, "s"),
                                format_with_prefix(current.high, "s"));
  if (report.roofline_bound_s > 0)
    out += fmt::format("; the roofline bound is {}, {} of that", format_with_prefix(report.roofline_bound_s, "s"),
                       format_percent(report.roofline_bound_s / current.expected));
  return out + "\n";
}

std::string gain_text(const AdviceReport& report, const Advice& advice) {
  const double current = report.predicted_s.expected;
  const auto share = [&](double gained) { return format_percent(gained / current); };
  std::string out = fmt::format("gains {}, {} ({} .. {})", format_with_prefix(advice.gain_s.expected, "s"),
                                share(advice.gain_s.expected), share(advice.gain_s.low), share(advice.gain_s.high));
  if (advice.work_ratio > 1)
    out += fmt::format(", scaled down from a run of {} times the work", format_significant(advice.work_ratio));
  return out;
}

std::string_view confirmation_result(const Confirmation& confirmation) {
  if (!confirmation.is_confirmed) return "not confirmed";
  return confirmation.is_within_interval ? "confirmed, within the predicted interval"
                                         : "confirmed, outside the predicted interval";
}

std::string measured_line(const AdviceReport& report, const Confirmation& confirmation) {
  return fmt::format(
      "measured: {} times the original time, a gain of {}: {}", format_significant(confirmation.ratio.median),
      format_percent(confirmation.gain_s / report.predicted_s.expected), confirmation_result(confirmation));
}

std::string confirmation_summary(const AdviceReport& report) {
  const auto requested = std::count_if(report.steps.begin(), report.steps.end(),
                                       [](const AdviceStep& x) { return x.confirmation.has_value(); });
  if (requested == 0) return {};
  const auto count = [&](bool Confirmation::*what) {
    return std::count_if(report.steps.begin(), report.steps.end(),
                         [&](const AdviceStep& x) { return x.confirmation && (*x.confirmation).*what; });
  };
  return fmt::format("{} of {} confirmed, {} within the predicted interval\n", count(&Confirmation::is_confirmed),
                     requested, count(&Confirmation::is_within_interval));
}

Json step_json(const AdviceStep& step) {
  Json out{{"kind", step.advice.kind},
           {"what", step.advice.description},
           {"gain_s", interval_json(step.advice.gain_s)},
           {"work", step.advice.work_ratio},
           {"confirm", step.confirm_command},
           {"confirmable", step.is_confirmable}};
  out["confirmed"] = nullptr;
  if (const auto& confirmation = step.confirmation)
    out["confirmed"] = {{"ratio",
                         {{"low", confirmation->ratio.low},
                          {"median", confirmation->ratio.median},
                          {"high", confirmation->ratio.high}}},
                        {"gain_s", confirmation->gain_s},
                        {"came_true", confirmation->is_confirmed},
                        {"within", confirmation->is_within_interval}};
  return out;
}

}  // namespace

std::string render_text(const AdviceReport& report, const TextStyle& style) {
  const TextStyler styled(style);
  std::string out = styled.bold(title_line(report));
  if (!report.without_model.empty())
    out +=
        "first: write them with products, row functions or elementwise operations, or let a library compute them; "
        "plain loops take tens to thousands of times their bound\n";
  else if (report.steps.empty())
    out += fmt::format("no advice: no known change gains {} or more\n", format_percent(min_gain_fraction));
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const AdviceStep& step = report.steps[i];
    out += fmt::format("{}. {}: {}\n   {}{}\n", i + 1, step.advice.description, gain_text(report, step.advice),
                       step.is_confirmable ? "" : "cannot be confirmed on this machine: ", step.confirm_command);
    if (step.confirmation) out += "   " + measured_line(report, *step.confirmation) + "\n";
  }
  return out + confirmation_summary(report);
}

std::string render_json(const AdviceReport& report) {
  Json out{{"schema", "ridge.advice/1"},
           {"title", report.title},
           {"machine", report.machine},
           {"program", report.program},
           {"predicted_s", predicted_json(report.predicted_s, report.without_model.empty())},
           {"time_lower_s", report.roofline_bound_s},
           {"without_model", report.without_model},
           {"advice", Json::array()}};
  for (const AdviceStep& step : report.steps) out["advice"].push_back(step_json(step));
  return out.dump(1) + "\n";
}

}  // namespace ridge
