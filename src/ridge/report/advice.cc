#include "ridge/report/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ridge/report/words.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

std::string head(const AdviceReport& report) {
  const Interval& now = report.predicted_s;
  std::string out = fmt::format("{} on {}: {} predicted, {} .. {}", report.title, report.machine_title,
                                engineering(now.expected, "s"), engineering(now.low, "s"), engineering(now.high, "s"));
  if (report.bound_s > 0)
    out += fmt::format("; the roof allows {}, {} of it", engineering(report.bound_s, "s"),
                       percent(report.bound_s / now.expected));
  return out + "\n";
}

std::string gain(const AdviceReport& report, const Advice& advice) {
  const double now = report.predicted_s.expected;
  const auto share = [&](double gained) { return percent(gained / now); };
  std::string out = fmt::format("gains {}, {} ({} .. {})", engineering(advice.gain_s.expected, "s"),
                                share(advice.gain_s.expected), share(advice.gain_s.low), share(advice.gain_s.high));
  if (advice.work > 1) out += fmt::format(", a run of {} times as much counted by its share", significant(advice.work));
  return out;
}

std::string_view verdict(const Confirmation& found) {
  if (!found.came_true) return "it did not come true";
  return found.is_within ? "it came true, as much as was said" : "it came true, by another amount than was said";
}

std::string measured(const AdviceReport& report, const Confirmation& found) {
  return fmt::format("measured: {} in place of 1, which gains {}: {}", significant(found.ratio.median),
                     percent(found.gain_s / report.predicted_s.expected), verdict(found));
}

std::string verdicts(const AdviceReport& report) {
  const auto asked = std::count_if(report.steps.begin(), report.steps.end(),
                                   [](const AdviceStep& x) { return x.confirmation.has_value(); });
  if (asked == 0) return {};
  const auto count = [&](bool Confirmation::*what) {
    return std::count_if(report.steps.begin(), report.steps.end(),
                         [&](const AdviceStep& x) { return x.confirmation && (*x.confirmation).*what; });
  };
  return fmt::format("{} of {} came true, {} within the interval\n", count(&Confirmation::came_true), asked,
                     count(&Confirmation::is_within));
}

Json interval_json(const Interval& x) { return {{"low", x.low}, {"expected", x.expected}, {"high", x.high}}; }

Json step_json(const AdviceStep& step) {
  Json out{{"kind", step.advice.kind}, {"what", step.advice.what}, {"gain_s", interval_json(step.advice.gain_s)},
           {"work", step.advice.work}, {"confirm", step.confirm},  {"confirmable", step.is_confirmable}};
  out["confirmed"] = nullptr;
  if (const auto& found = step.confirmation)
    out["confirmed"] = {
        {"ratio", {{"low", found->ratio.low}, {"median", found->ratio.median}, {"high", found->ratio.high}}},
        {"gain_s", found->gain_s},
        {"came_true", found->came_true},
        {"within", found->is_within}};
  return out;
}

}  // namespace

std::string render_text(const AdviceReport& report, const TextStyle& style) {
  const Styled styled(style);
  std::string out = styled.bold(head(report));
  if (report.steps.empty()) out += fmt::format("nothing to do: nothing known gains {} or more\n", percent(least_gain));
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const AdviceStep& step = report.steps[i];
    out += fmt::format("{}. {}: {}\n   {}{}\n", i + 1, step.advice.what, gain(report, step.advice),
                       step.is_confirmable ? "" : "not confirmable here: ", step.confirm);
    if (step.confirmation) out += "   " + measured(report, *step.confirmation) + "\n";
  }
  return out + verdicts(report);
}

std::string render_json(const AdviceReport& report) {
  Json out{{"schema", "ridge.advice/1"},
           {"title", report.title},
           {"machine", report.machine},
           {"program", report.program},
           {"predicted_s", interval_json(report.predicted_s)},
           {"time_lower_s", report.bound_s},
           {"advice", Json::array()}};
  for (const AdviceStep& step : report.steps) out["advice"].push_back(step_json(step));
  return out.dump(1) + "\n";
}

}  // namespace ridge
