#include "ridge/report/steps.h"

#include <fmt/format.h>

#include <cctype>

#include "ridge/base/string_util.h"
#include "ridge/machine/function_costs.h"
#include "ridge/report/parts/used_peaks.h"

namespace ridge {
namespace {

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\''; }

// Substitutes values: "2*B*D*F" with B = 256 becomes "2*256*D*F".
std::string with_values(const std::string& formula, const Bindings& dims) {
  std::string out;
  for (std::size_t at = 0; at < formula.size();) {
    std::size_t end = at;
    while (end < formula.size() && is_name_character(formula[end])) ++end;
    if (end == at) {
      out += formula[at++];
      continue;
    }
    const std::string word = formula.substr(at, end - at);
    const auto value = dims.find(word);
    out += value == dims.end() ? word : std::to_string(value->second);
    at = end;
  }
  return out;
}

// Writes numbered steps, each with a heading and lines aligned at the first '='.
class StepWriter {
 public:
  explicit StepWriter(bool markdown) : markdown_(markdown) {}

  void add_title(const std::string& text) {
    out_ += (out_.empty() ? "" : "\n") + (markdown_ ? fmt::format("## `{}`\n", text) : text + "\n");
    number_ = 0;
  }
  void add_note(const std::string& text) { out_ += text + "\n"; }
  void add_step(const std::string& what, const std::string& name, const std::vector<std::string>& equals) {
    ++number_;
    out_ += markdown_ ? fmt::format("\n{}. {}\n\n   ```\n", number_, what) : fmt::format("\n{}. {}\n", number_, what);
    std::string left = name;
    for (const std::string& right : equals) {
      const bool inequality = right.starts_with(">=") || right.starts_with("<=") || right.starts_with("=>");
      out_ += fmt::format("   {} {}{}\n", left, inequality ? "" : "= ", right);
      left = std::string(count_characters(name), ' ');
    }
    if (markdown_) out_ += "   ```\n";
  }
  std::string text() const { return out_; }

 private:
  bool markdown_;
  int number_ = 0;
  std::string out_;
};

std::string exact_and_short(Count value, std::string_view unit) {
  const std::string short_form = format_with_prefix(static_cast<double>(value), unit);
  return value < 1000 ? fmt::format("{} {}", value, unit)
                      : fmt::format("{} {} = {}", group_digits(value), unit, short_form);
}

void count_steps(StepWriter& steps, const Prediction& p, const Explanation& e) {
  const std::string flops = p.work.flops.to_string(e.dim_names), bytes = p.work.bytes().to_string(e.dim_names);
  std::vector<std::string> lines{flops};
  if (p.flops) {
    if (!e.dims.empty()) lines.push_back(with_values(flops, e.dims) + " FLOP");
    lines.push_back(exact_and_short(*p.flops, "FLOP"));
  }
  const bool sum = p.work.text.empty();
  const char* title = "Work: one FLOP for each operation on each element of the result";
  if (p.work.contraction) title = "Work: a multiply and an add for each combination of the indices";
  if (sum) title = "Work: the sum over the operations";
  if (!p.work.flops_without_masks.is_zero())
    lines.push_back(
        fmt::format("{} less the part that the mask skips", p.work.flops_without_masks.to_string(e.dim_names)));
  steps.add_step(title, "FLOPs", lines);
  lines = {bytes};
  if (p.work.bytes_in != Polynomial() && p.work.bytes_out != Polynomial())
    lines.push_back(fmt::format("({}) read + ({}) written", p.work.bytes_in.to_string(e.dim_names),
                                p.work.bytes_out.to_string(e.dim_names)));
  if (p.bytes) {
    if (!e.dims.empty()) lines.push_back(with_values(bytes, e.dims) + " B");
    lines.push_back(exact_and_short(*p.bytes, "B"));
  }
  steps.add_step("Bytes: each input read once, the result written once", "bytes", lines);
  lines = {"FLOPs / bytes", p.intensity_formula};
  if (p.intensity) {
    lines.push_back(fmt::format("{} FLOP / {} B", group_digits(*p.flops), group_digits(*p.bytes)));
    lines.push_back(format_significant(*p.intensity, 5) + " FLOP/B");
  }
  steps.add_step("Intensity", "I", lines);
}

std::string memory_rate(const Prediction& p) { return format_with_prefix(*p.bandwidth, "B/s"); }
std::string peak_rate(const Prediction& p) {
  return format_with_prefix(p.peak->rate.value, dtype_info(p.peak->dtype).is_integer ? "OP/s" : "FLOP/s");
}

void ridge_step(StepWriter& steps, const Prediction& p) {
  std::vector<std::string> lines{"peak / bandwidth", fmt::format("{} / {}", peak_rate(p), memory_rate(p)),
                                 format_significant(*p.ridge, 5) + " FLOP/B"};
  if (p.intensity)
    lines.push_back(*p.intensity < *p.ridge ? "=> I < r: memory time exceeds compute time"
                                            : "=> I >= r: compute time is at least memory time");
  steps.add_step("Ridge: the intensity above which compute time exceeds memory time", "r", lines);
}

// Returns " + 2.000 us", the latency of the hops, or an empty string if it is zero.
std::string latency_text(const Prediction& p) {
  const double rest = *p.time_network_s - *p.bytes_sent / *p.link_rate;
  return rest > 1e-9 * *p.time_network_s ? " + " + format_with_prefix(rest, "s") : "";
}

// "2*N + 38*N FLOP": the work without its calls, and each call at its cost.
std::string costs_text(const Prediction& p, const Explanation& e) {
  Polynomial rest = p.work.flops;
  std::string out;
  for (const FunctionCalls& calls : p.work.calls) {
    rest = rest - calls.count;
    const SourcedValue cost = function_cost(e.machine, calls.function);
    out += fmt::format(" + {:.0f}*{} ({})", cost.value, calls.count.to_string(e.dim_names),
                       function_info(calls.function).name);
  }
  return (rest.is_zero() ? out.substr(3) : rest.to_string(e.dim_names) + out) + " FLOP";
}

void time_steps(StepWriter& steps, const Prediction& p, const Explanation& e) {
  if (p.peak && p.time_math_s && p.work.calls.empty())
    steps.add_step("Compute time", "T_math",
                   {"FLOPs / peak", fmt::format("{} FLOP / {}", group_digits(*p.flops), peak_rate(p)),
                    format_with_prefix(*p.time_math_s, "s")});
  else if (p.peak && p.time_math_s)
    steps.add_step("Compute time, with each function at its cost", "T_math",
                   {fmt::format("({}) / {}", costs_text(p, e), peak_rate(p)), format_with_prefix(*p.time_math_s, "s")});
  steps.add_step("Memory time", "T_memory",
                 {"bytes / bandwidth", fmt::format("{} B / {}", group_digits(*p.bytes), memory_rate(p)),
                  format_with_prefix(*p.time_memory_s, "s")});
  if (p.time_network_s)
    steps.add_step("Network time", "T_network",
                   {"bytes sent / link bandwidth + latency of the hops, or a timed library",
                    fmt::format("{} / {}{}", format_with_prefix(*p.bytes_sent, "B"),
                                format_with_prefix(*p.link_rate, "B/s"), latency_text(p)),
                    format_with_prefix(*p.time_network_s, "s")});
  steps.add_step("Total time: the longest with perfect overlap, the sum without overlap", "T",
                 {fmt::format(">= {}, by {}", format_with_prefix(*p.time_lower_s, "s"), name(*p.limiter)),
                  fmt::format("<= {}", format_with_prefix(*p.time_upper_s, "s"))});
}

void threshold_step(StepWriter& steps, const Threshold& t, const Explanation& e) {
  const std::string over(name(t.roofs[0])), under(name(t.roofs[1]));
  const std::string what = fmt::format("Threshold of {}: {} time exceeds {} time, T_{} >= T_{}, with r = {}", t.dim,
                                       over, under, over, under, format_significant(t.ratio, 5));
  if (t.relation == Relation::always || t.relation == Relation::never) {
    steps.add_step(what, t.dim, {t.relation == Relation::always ? "every value" : "none"});
    return;
  }
  const std::string relation(name(t.relation));
  if (t.numerical) {
    steps.add_step(what, t.dim,
                   {fmt::format("{} {}", relation, *t.value), "solved numerically: no closed form is known"});
    return;
  }
  std::vector<std::string> lines{fmt::format("{} {}", relation, t.exact)};
  if (t.value) {
    Bindings dims = e.dims;
    dims.erase(t.dim);
    lines.push_back(with_values(t.exact, dims));
    if (t.value_real) lines.push_back(fmt::format("{}", format_significant(*t.value_real, 6)));
    lines.push_back(fmt::format("=> {} {} {}", t.dim, relation, *t.value));
  }
  if (!t.condition.empty()) lines.push_back("=> if " + t.condition);
  if (t.approx && !t.assuming.empty())
    lines.push_back(fmt::format("=> {} where {}", format_significant(*t.approx, 5), t.assuming));
  steps.add_step(what, t.dim, lines);
}

}  // namespace

std::string render_steps(const Report& report, bool markdown) {
  const Explanation& e = report.explanation;
  StepWriter steps(markdown);
  for (const Prediction& p : e.ops) {
    steps.add_title(p.work.text);
    std::string on = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
    for (const auto& [dim, value] : e.dims) on += fmt::format(", {} = {}", dim, value);
    if (e.split) on += fmt::format("; one of {} chips, {} split", e.split->chips, format_dims(*e.split));
    steps.add_note(on);
    count_steps(steps, p, e);
    if (!p.work.bytes_sent.is_zero())
      steps.add_step(
          fmt::format("Sent: {}, over {}",
                      p.work.collective.empty() ? "every chip's partial result, all-reduced" : p.work.collective,
                      describe_network(*e.network)),
          "sent", {p.work.bytes_sent.to_string(e.dim_names) + " B"});
    if (!p.missing.empty()) steps.add_note("\nNo ridge, and times exclude it: the machine has no " + p.missing);
    if (p.ridge) ridge_step(steps, p);
    if (p.time_lower_s) time_steps(steps, p, e);
    for (const Threshold& t : p.thresholds) threshold_step(steps, t, e);
  }
  for (const Prediction* p : sums_with_thresholds(e)) {
    steps.add_title(p->work.name);
    count_steps(steps, *p, e);
    for (const FlopWeight& w : p->flop_weights)
      steps.add_note(fmt::format("\nOne FLOP on {} {} takes as long as {} FLOPs at r's peak",
                                 ridge::unit_name(w.peak.unit), ridge::dtype_name(w.peak.dtype),
                                 format_significant(w.weight, 5)));
    for (const Threshold& t : p->thresholds) threshold_step(steps, t, e);
  }
  return steps.text();
}

}  // namespace ridge
