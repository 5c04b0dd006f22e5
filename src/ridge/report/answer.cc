// The first screen of `explain`: what binds the program and for how long, what takes most of it, and what to do next,
// with the command that shows it. At most fifteen lines with the title; everything below is detail.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/report/words.h"

namespace ridge {
namespace {

constexpr std::size_t largest_shown = 5, gains_shown = 4, sizes_shown = 2;
constexpr std::size_t turns_shown = 3, longest_turn = 60;
constexpr std::size_t line_width = 120;

std::string verdict(const Report& report) {
  const Explanation& e = report.explanation;
  const Prediction& total = e.total;
  std::string out = fmt::format("{}-bound: {} if all overlaps, {} if nothing does", name(*total.limiter),
                                engineering(*total.time_lower_s, "s"), engineering(*total.time_upper_s, "s"));
  if (e.ops.size() < 2) return out + "\n";
  const std::size_t most = by_share(e).front();
  const auto share = share_of(e, e.ops[most]);
  if (share) out += fmt::format("; most of it in {} ({})", op_name(report, most), percent(*share));
  return out + "\n";
}

// "largest  y 972.4 us 20.5 % compute, …"
std::string largest(const Report& report) {
  const Explanation& e = report.explanation;
  if (e.ops.size() < 2) return {};
  std::vector<std::string> parts;
  for (const std::size_t i : by_share(e)) {
    const auto share = share_of(e, e.ops[i]);
    if (!share || parts.size() == largest_shown) break;
    parts.push_back(
        fmt::format("{} {} ({})", op_name(report, i), engineering(*e.ops[i].time_lower_s, "s"), percent(*share)));
  }
  return fmt::format("largest  {}\n", fmt::join(parts, ", "));
}

// "17.44 G": a number of elements.
std::string counted(double count) {
  std::string text = engineering(count, "");
  if (text.ends_with(" ")) text.pop_back();
  return text;
}

// "balance  computes longer than it moves for B >= 233, for no D": of the sums of all operations' times.
std::string turns(const Report& report) {
  const Explanation& e = report.explanation;
  std::vector<std::string> parts;
  for (const Threshold& t : e.total.thresholds) {
    const bool usual = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
    if (!usual || !is_asked(report, t.dim) || parts.size() == turns_shown) continue;
    std::string range = fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
    if (t.relation == Relation::never) range = "no " + t.dim;
    if (t.relation == Relation::always) range = "every " + t.dim;
    if (!t.value && !t.condition.empty()) range += " if " + t.condition;
    if (range.size() <= longest_turn) parts.push_back(std::move(range));
  }
  if (parts.empty()) return {};
  return fmt::format("balance  computes longer than it moves for {}\n", fmt::join(parts, ", for "));
}

// "memory   2.835 GB of hbm's 80.00 GB: fits; each alone may grow to B = 69, S = 17439"
std::string memory(const Report& report) {
  const auto& held = report.explanation.memory;
  if (!held || !held->peak_bytes) return {};
  std::string out = "memory   " + held_text(*held->peak_bytes, *held);
  if (!held->capacity) return out + "\n";
  const bool fits = *held->peak_bytes <= *held->capacity;
  std::vector<std::string> most;
  for (const Threshold& t : held->fits)
    if (t.value && is_asked(report, t.dim)) most.push_back(fmt::format("{} = {}", t.dim, *t.value));
  if (!most.empty())
    out +=
        fmt::format("; {} {}", fits ? "each alone may grow to" : "one alone would have to be", fmt::join(most, ", "));
  if (held->chips && *held->chips > 1)
    out += fmt::format("; {} chips hold it", grouped(static_cast<long long>(*held->chips)));
  if (held->parameter_count && *held->parameter_count > 0)
    out += fmt::format("; {} parameters", counted(*held->parameter_count));
  return out + "\n";
}

// "layers   80 alike: 41.20 ms if all overlaps; 136.9 GB of hbm's 80.00 GB: does not fit, …; 2 chips hold them"
std::string layers_text(const Report& report) {
  const auto& layers = report.layers;
  if (!layers || !layers->time_lower_s) return {};
  std::string out =
      fmt::format("layers   {} of these: {} if all overlaps", layers->count, engineering(*layers->time_lower_s, "s"));
  if (layers->bytes) out += "; " + held_text(*layers->bytes, *report.explanation.memory);
  if (layers->chips && *layers->chips > 1) out += fmt::format("; {} chips hold them", significant(*layers->chips));
  return out + "\n";
}

// Without values there are no times; what is known is said nevertheless.
std::string open_text(const Report& report, const Styled& styled) {
  const Explanation& e = report.explanation;
  std::vector<std::string> open;
  for (const std::string& dim : e.dim_names)
    if (!e.dims.contains(dim)) open.push_back(dim);
  if (open.empty()) return {};
  std::string out =
      styled.bold(
          fmt::format("no times yet: {} {} no value", fmt::join(open, ", "), open.size() == 1 ? "has" : "have")) +
      fmt::format("; -d {}=16 gives {}\n", open.front(), open.size() == 1 ? "it one" : "the first one one");
  out += turns(report);
  if (const auto& held = e.memory; held && held->parameter_bytes && *held->parameter_bytes > 0)
    out += "memory   parameters alone, " + held_text(*held->parameter_bytes, *held) + "\n";
  return out;
}

std::string gain_text(const NextStep& step) {
  if (!step.gain_s) return {};
  const double now = *step.time_s + *step.gain_s;
  if (*step.gain_s < 0.0005 * now) return "saves nothing";
  return fmt::format("{} -> {}, -{}", engineering(now, "s"), engineering(*step.time_s, "s"),
                     percent(*step.gain_s / now));
}

// What is typed behind the program: all of the command where every line has room for it.
std::string sizes_text(const NextStep& step) {
  std::string out = step.options;
  for (const auto& [dim, value] : step.dims) out += fmt::format("{}-d {}={}", out.empty() ? "" : " ", dim, value);
  return out;
}

std::vector<const SuggestedStep*> shown(const std::vector<SuggestedStep>& steps) {
  std::vector<const SuggestedStep*> out;
  std::size_t gains = 0, sizes = 0;
  for (const SuggestedStep& each : steps)
    if (each.step.gain_s ? gains++ < gains_shown : sizes++ < sizes_shown) out.push_back(&each);
  return out;
}

Rows next_rows(const std::vector<const SuggestedStep*>& steps, bool whole) {
  Rows rows;
  for (const SuggestedStep* each : steps) {
    const std::string command = whole ? each->command : "... " + sizes_text(each->step);
    rows.push_back({rows.empty() ? "next   " : "", shortened(each->step.what, 48), gain_text(each->step), command});
  }
  return rows;
}

std::string next_text(const Report& report) {
  const std::vector<const SuggestedStep*> steps = shown(report.next);
  if (steps.empty()) return {};
  const std::vector<bool> left(4, false);
  const std::string whole = aligned(next_rows(steps, true), left);
  std::size_t longest = 0;
  for (std::size_t at = 0; at < whole.size(); at = whole.find('\n', at) + 1)
    longest = std::max(longest, columns(std::string_view(whole).substr(at, whole.find('\n', at) - at)));
  const bool one_line_each = std::count(whole.begin(), whole.end(), '\n') == static_cast<long>(steps.size());
  return one_line_each && longest <= line_width ? whole : aligned(next_rows(steps, false), left);
}

}  // namespace

std::string answer_text(const Report& report, const Styled& styled) {
  const Prediction& total = report.explanation.total;
  if (!total.limiter || !total.time_lower_s || !total.time_upper_s) return open_text(report, styled);
  return styled.bold(verdict(report)) + largest(report) + turns(report) + memory(report) + layers_text(report) +
         next_text(report) + "\n";
}

}  // namespace ridge
