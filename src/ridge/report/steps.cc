#include "ridge/report/steps.h"

#include <fmt/format.h>

#include <cctype>

#include "ridge/base/text.h"
#include "ridge/report/parts/used.h"

namespace ridge {
namespace {

bool part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\''; }

// "2*B*D*F" with B = 256 is "2*256*D*F".
std::string with_values(const std::string& formula, const Bindings& dims) {
  std::string out;
  for (std::size_t at = 0; at < formula.size();) {
    std::size_t end = at;
    while (end < formula.size() && part_of_name(formula[end])) ++end;
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

// Numbered steps, each a heading and lines that align on their first '='.
class Steps {
 public:
  explicit Steps(bool markdown) : markdown_(markdown) {}

  void title(const std::string& text) {
    out_ += (out_.empty() ? "" : "\n") + (markdown_ ? fmt::format("## `{}`\n", text) : text + "\n");
    number_ = 0;
  }
  void note(const std::string& text) { out_ += text + "\n"; }
  void step(const std::string& what, const std::string& name, const std::vector<std::string>& equals) {
    ++number_;
    out_ += markdown_ ? fmt::format("\n{}. {}\n\n   ```\n", number_, what) : fmt::format("\n{}. {}\n", number_, what);
    std::string left = name;
    for (const std::string& right : equals) {
      const bool inequality = right.starts_with(">=") || right.starts_with("<=") || right.starts_with("=>");
      out_ += fmt::format("   {} {}{}\n", left, inequality ? "" : "= ", right);
      left = std::string(columns(name), ' ');
    }
    if (markdown_) out_ += "   ```\n";
  }
  std::string text() const { return out_; }

 private:
  bool markdown_;
  int number_ = 0;
  std::string out_;
};

std::string whole(Count value, std::string_view unit) {
  const std::string short_form = engineering(static_cast<double>(value), unit);
  return value < 1000 ? fmt::format("{} {}", value, unit) : fmt::format("{} {} = {}", grouped(value), unit, short_form);
}

void count_steps(Steps& steps, const Prediction& p, const Explanation& e) {
  const std::string flops = p.work.flops.text(e.dim_names), bytes = p.work.bytes().text(e.dim_names);
  std::vector<std::string> lines{flops};
  if (p.flops) {
    if (!e.dims.empty()) lines.push_back(with_values(flops, e.dims) + " FLOP");
    lines.push_back(whole(*p.flops, "FLOP"));
  }
  const bool sum = p.work.text.empty();
  const char* title = "Work: one for each operation on each element of the result";
  if (p.work.contraction) title = "Work: a multiply and an add for each combination of the dimensions";
  if (sum) title = "Work: that of the operations";
  if (!p.work.unmasked.zero())
    lines.push_back(fmt::format("without what the mask saves of {}", p.work.unmasked.text(e.dim_names)));
  steps.step(title, "FLOPs", lines);
  lines = {bytes};
  if (p.work.bytes_in != Polynomial() && p.work.bytes_out != Polynomial())
    lines.push_back(
        fmt::format("({}) read + ({}) written", p.work.bytes_in.text(e.dim_names), p.work.bytes_out.text(e.dim_names)));
  if (p.bytes) {
    if (!e.dims.empty()) lines.push_back(with_values(bytes, e.dims) + " B");
    lines.push_back(whole(*p.bytes, "B"));
  }
  steps.step("Bytes: each input read once, the result written once", "bytes", lines);
  lines = {"FLOPs / bytes", p.intensity_formula};
  if (p.intensity) {
    lines.push_back(fmt::format("{} FLOP / {} B", grouped(*p.flops), grouped(*p.bytes)));
    lines.push_back(significant(*p.intensity, 5) + " FLOP/B");
  }
  steps.step("Intensity", "I", lines);
}

std::string memory_rate(const Prediction& p) { return engineering(*p.bandwidth, "B/s"); }
std::string peak_rate(const Prediction& p) {
  return engineering(p.peak->rate.value, info(p.peak->dtype).integer ? "OP/s" : "FLOP/s");
}

void ridge_step(Steps& steps, const Prediction& p) {
  std::vector<std::string> lines{"peak / bandwidth", fmt::format("{} / {}", peak_rate(p), memory_rate(p)),
                                 significant(*p.ridge, 5) + " FLOP/B"};
  if (p.intensity)
    lines.push_back(*p.limiter == Limiter::memory || (*p.limiter == Limiter::network && p.runner_up == Limiter::memory)
                        ? "=> I < r: memory takes longer than compute"
                        : "=> I >= r: compute takes at least as long as memory");
  steps.step("Ridge: the intensity from which on computing takes longer than moving", "r", lines);
}

// " + 2.000 us", where the links' time is not all of it.
std::string waiting(const Prediction& p) {
  const double rest = *p.time_network_s - *p.bytes_sent / *p.link;
  return rest > 1e-9 * *p.time_network_s ? " + " + engineering(rest, "s") : "";
}

void time_steps(Steps& steps, const Prediction& p) {
  if (p.peak && p.time_math_s)
    steps.step("Time to compute", "T_math",
               {"FLOPs / peak", fmt::format("{} FLOP / {}", grouped(*p.flops), peak_rate(p)),
                engineering(*p.time_math_s, "s")});
  steps.step("Time to move", "T_memory",
             {"bytes / bandwidth", fmt::format("{} B / {}", grouped(*p.bytes), memory_rate(p)),
              engineering(*p.time_memory_s, "s")});
  if (p.time_network_s)
    steps.step("Time to send", "T_network",
               {"bytes sent / links, and the hops that the last byte waits",
                fmt::format("{} / {}{}", engineering(*p.bytes_sent, "B"), engineering(*p.link, "B/s"), waiting(p)),
                engineering(*p.time_network_s, "s")});
  steps.step("The longest if all overlap, the sum if nothing does", "T",
             {fmt::format(">= {}, by {}", engineering(*p.time_lower_s, "s"), name(*p.limiter)),
              fmt::format("<= {}", engineering(*p.time_upper_s, "s"))});
}

void threshold_step(Steps& steps, const Threshold& t, const Explanation& e) {
  const std::string over(name(t.roofs[0])), under(name(t.roofs[1]));
  const std::string what = fmt::format("From which {} on does {} take longer than {}? T_{} >= T_{}, with r = {}", t.dim,
                                       over, under, over, under, significant(t.ratio, 5));
  if (t.relation == Relation::always || t.relation == Relation::never) {
    steps.step(what, t.dim, {t.relation == Relation::always ? "every one" : "none, however large"});
    return;
  }
  const std::string relation(name(t.relation));
  if (t.numerical) {
    steps.step(what, t.dim, {fmt::format("{} {}", relation, *t.value), "solved numerically: no closed form is known"});
    return;
  }
  std::vector<std::string> lines{fmt::format("{} {}", relation, t.exact)};
  if (t.value) {
    Bindings dims = e.dims;
    dims.erase(t.dim);
    lines.push_back(with_values(t.exact, dims));
    if (t.value_real) lines.push_back(fmt::format("{}", significant(*t.value_real, 6)));
    lines.push_back(fmt::format("=> {} {} {}", t.dim, relation, *t.value));
  }
  if (!t.condition.empty()) lines.push_back("=> if " + t.condition);
  if (t.approx && !t.assuming.empty())
    lines.push_back(fmt::format("=> {} where {}", significant(*t.approx, 5), t.assuming));
  steps.step(what, t.dim, lines);
}

}  // namespace

std::string render_steps(const Report& report, bool markdown) {
  const Explanation& e = report.explanation;
  Steps steps(markdown);
  for (const Prediction& p : e.ops) {
    steps.title(p.work.text);
    std::string on = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
    for (const auto& [dim, value] : e.dims) on += fmt::format(", {} = {}", dim, value);
    if (e.split) on += fmt::format("; one of {} chips, {} split", e.split->chips, dims_text(*e.split));
    steps.note(on);
    count_steps(steps, p, e);
    if (!p.work.bytes_sent.zero())
      steps.step(fmt::format("Sent: {}, over {}",
                             p.work.collective.empty() ? "every chip's partial result, all-reduced" : p.work.collective,
                             text(*e.network)),
                 "sent", {p.work.bytes_sent.text(e.dim_names) + " B"});
    if (!p.missing.empty()) steps.note("\nNo ridge, and times without it: the machine has no " + p.missing);
    if (p.ridge) ridge_step(steps, p);
    if (p.time_lower_s) time_steps(steps, p);
    for (const Threshold& t : p.thresholds) threshold_step(steps, t, e);
  }
  for (const Prediction* p : sums(e)) {
    steps.title(p->work.name);
    count_steps(steps, *p, e);
    for (const Weight& w : p->weights)
      steps.note(fmt::format("\nA FLOP on {} {} takes as long as {} of those that r counts", ridge::name(w.peak.unit),
                             ridge::name(w.peak.dtype), significant(w.weight, 5)));
    for (const Threshold& t : p->thresholds) threshold_step(steps, t, e);
  }
  return steps.text();
}

}  // namespace ridge
