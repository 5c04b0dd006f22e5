// The report for eyes: what it costs and what binds as one table, the formulas and thresholds in words below, and last
// where the machine's numbers come from. "-" stands for what is not known, for instance where a dimension has no value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/machine/keys.h"
#include "ridge/report/assumed.h"
#include "ridge/report/plan.h"
#include "ridge/report/report.h"
#include "ridge/report/used.h"

namespace ridge {
namespace {

using Rows = std::vector<std::vector<std::string>>;

class Styled {
 public:
  explicit Styled(const TextStyle& style) : color_(style.color) {}
  std::string bold(const std::string& text) const { return color_ ? "\x1b[1m" + text + "\x1b[0m" : text; }
  std::string warn(const std::string& text) const { return color_ ? "\x1b[33m" + text + "\x1b[0m" : text; }
  // The first line of a table stands out.
  std::string table(const Rows& rows, const std::vector<bool>& right) const {
    const std::string all = aligned(rows, right);
    const std::size_t end = all.find('\n');
    return bold(all.substr(0, end)) + all.substr(end);
  }

 private:
  bool color_;
};

template <class T> std::string unit_or_dash(const std::optional<T>& value, std::string_view unit) {
  return value ? engineering(static_cast<double>(*value), unit) : "-";
}
std::string number_or_dash(const std::optional<double>& value) { return value ? significant(*value) : "-"; }

std::string capped(const std::string& text, std::size_t width) { return shortened(text, width); }

std::string limiter(const Prediction& p) { return p.limiter ? std::string(name(*p.limiter)) : "-"; }

std::string dims_line(const Explanation& e) {
  std::string out;
  for (const std::string& dim : e.dim_names) {
    const auto value = e.dims.find(dim);
    out += fmt::format("  {} = {}", dim, value == e.dims.end() ? "?" : std::to_string(value->second));
  }
  return out;
}

// "mesh  X = 4  Y = 2: counted for one of 8 devices"
std::string mesh_line(const Explanation& e) {
  if (e.mesh_names.empty()) return {};
  std::string out = "mesh";
  std::int64_t devices = 1;
  for (const std::string& axis : e.mesh_names) {
    out += fmt::format("  {} = {}", axis, e.dims.at(axis));
    devices *= e.dims.at(axis);
  }
  return out + fmt::format(": counted for one of {} devices\n", grouped(devices));
}

// Work on integers is no FLOP.
const char* unit(const Work& work) { return info(work.math).integer ? "OP" : "FLOP"; }

// "compute-bound": of compute and memory the one; of other pairs both are named, "compute over network".
std::string bound(const Threshold& t, bool first, bool sum) {
  const std::string over(name(t.roofs[first ? 0 : 1])), under(name(t.roofs[first ? 1 : 0]));
  const bool usual = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
  return usual && !sum ? over + "-bound" : fmt::format("more {} than {} time", over, under);
}

// A dimension without a value leaves formulas and thresholds, but not one number for the table.
bool open(const Explanation& e) {
  return std::none_of(e.ops.begin(), e.ops.end(), [](const Prediction& p) { return p.flops.has_value(); });
}

std::string head(const Report& report, const Styled& styled) {
  const Machine& machine = report.explanation.machine;
  std::string out = styled.bold(fmt::format("{}  on {}", report.title, machine.name));
  if (!machine.title.empty() && machine.title != machine.name) out += fmt::format(" ({})", machine.title);
  const std::string dims = dims_line(report.explanation);
  out += "\n";
  if (!dims.empty()) out += "dims" + dims + "\n";
  if (const auto& cut = report.explanation.split)
    out += fmt::format("one of {} chips, {} split\n", cut->chips, cut->dim);
  out += mesh_line(report.explanation);
  return open(report.explanation) ? out : out + "\n";
}

std::vector<std::string> predicted_row(const std::string& op, const Prediction& p) {
  return {op,
          unit_or_dash(p.flops, unit(p.work)),
          unit_or_dash(p.bytes, "B"),
          number_or_dash(p.intensity),
          number_or_dash(p.ridge),
          limiter(p),
          unit_or_dash(p.time_lower_s, "s"),
          unit_or_dash(p.time_upper_s, "s"),
          unit_or_dash(p.time_network_s, "s"),
          unit_or_dash(p.bytes_sent, "B")};
}

// "u, g, y": what a kernel makes.
std::string kernel_name(const Report& report, std::size_t i) {
  if (!report.measured || report.measured->names.size() <= i) return report.explanation.ops[i].work.name;
  return fmt::format("{}", fmt::join(report.measured->names[i], ", "));
}

std::string predicted_table(const Report& report, const Styled& styled) {
  const Explanation& e = report.explanation;
  Rows rows{{"op", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap", "network", "sent"}};
  for (std::size_t i = 0; i < e.ops.size(); ++i)
    rows.push_back(predicted_row(capped(kernel_name(report, i), 24), e.ops[i]));
  if (e.ops.size() > 1) rows.push_back(predicted_row("total", e.total));
  if (e.fused) rows.push_back(predicted_row("fused", *e.fused));
  if (!e.network)
    for (auto& row : rows) row.resize(row.size() - 2);
  return styled.table(rows, {false, true, true, true, true, false, true, true, true, true});
}

// "93.1 %"; of what is in a cache "41.2 % of l3", or "in l3" where its rate was not measured.
std::string of_roof(const OpMeasurement& m) {
  const std::string cache = m.cache.empty() ? "" : " of " + m.cache;
  if (m.fraction_of_roof) return fmt::format("{:.1f} %{}", 100 * *m.fraction_of_roof, cache);
  return m.cache.empty() ? "-" : "in " + m.cache;
}

std::vector<std::string> measured_row(const std::string& op, const Prediction& p, const OpMeasurement& m) {
  return {op,
          limiter(p),
          unit_or_dash(p.time_lower_s, "s"),
          engineering(m.time.median, "s"),
          fmt::format("{} .. {}", engineering(m.time.min, "s"), engineering(m.time.max, "s")),
          std::to_string(m.time.runs),
          of_roof(m),
          m.max_rel_error == 0 ? "0" : fmt::format("{:.1e}", m.max_rel_error),
          fmt::format("{:.1f} %", 100 * m.share)};
}

std::string cpu_line(const Measurement& measured) {
  return fmt::format("between the operations {}; {} thread{}, {}; seed {}; {} in memory\n",
                     engineering(std::max(0.0, measured.overhead_s), "s"), measured.threads,
                     measured.threads == 1 ? "" : "s", measured.isa, measured.seed,
                     engineering(static_cast<double>(measured.memory_bytes), "B"));
}

// "h: overhead-bound: 3.0 us at half of F, 3.1 us as it is, 3.3 us at double; 2.9 us of it is fixed"
std::string regime_line(const std::string& op, const Regime& r) {
  return fmt::format("{}: {}-bound: {} at half of {}, {} as it is, {} at double; {} of it is fixed\n", capped(op, 24),
                     r.limiter ? name(*r.limiter) : "?", engineering(r.half_s, "s"), r.dim, engineering(r.once_s, "s"),
                     engineering(r.double_s, "s"), engineering(r.fixed_s, "s"));
}

// "y: tuned earlier: sm90_128x192x64_pingpong, k in 2 pieces, 12.3 us; the model's choice 13.0 us (fastest of 8)"
std::string tuned_line(const std::string& op, const Tuned& t) {
  std::string out;
  const std::string kernel = t.kernel + (t.splits > 1 ? fmt::format(", k in {} pieces", t.splits) : std::string());
  const char* const when = t.now ? "now" : "earlier";
  if (t.candidates > 0 && t.is_model)
    out += fmt::format("{}: tuned {}: none of {} gains 2 % on the model's choice, {}, {}\n", capped(op, 24), when,
                       t.candidates, kernel, engineering(t.seconds, "s"));
  else if (t.candidates > 0)
    out += fmt::format("{}: tuned {}: {}, {}; the model's choice {} (fastest of {})\n", capped(op, 24), when, kernel,
                       engineering(t.seconds, "s"), engineering(t.model_seconds, "s"), t.candidates);
  if (t.remark.empty()) return out;
  return out + fmt::format("{}: {}{}\n", capped(op, 24), t.remark, t.now ? "" : "; --tune measures anew");
}

std::string device_lines(const Report& report) {
  const Measurement& m = *report.measured;
  const DeviceNotes& d = *m.device;
  std::string out =
      fmt::format("cold L2, launches in a graph; launched one by one {} a pass; between the operations {}\n",
                  engineering(d.eager_s, "s"), engineering(m.overhead_s, "s"));
  out += fmt::format("{}, driver {}.{}; seed {}; {} in memory\n", d.name, d.driver / 1000, d.driver % 1000 / 10, m.seed,
                     engineering(static_cast<double>(m.memory_bytes), "B"));
  if (m.clocks.after_hz)
    out += fmt::format("clock {} of {}, {:.0f} W{}{}\n", engineering(*m.clocks.after_hz, "Hz"),
                       engineering(m.clocks.most_hz.value_or(0), "Hz"), m.clocks.power_w.value_or(0),
                       m.clocks.slowed_by.empty() ? "" : ", held by: ", fmt::join(m.clocks.slowed_by, ", "));
  const double carried = static_cast<double>(d.input_bytes) / d.host_to_device;
  out += fmt::format("host to device {}: the inputs' {} take {}, {} times the program\n",
                     engineering(d.host_to_device, "B/s"), engineering(static_cast<double>(d.input_bytes), "B"),
                     engineering(carried, "s"), significant(carried / m.total.time.median, 3));
  for (std::size_t i = 0; i < m.ops.size(); ++i)
    if (m.ops[i].regime) out += regime_line(report.explanation.ops[i].work.name, *m.ops[i].regime);
  for (std::size_t i = 0; i < m.ops.size(); ++i)
    for (const Tuned& t : m.ops[i].tuned) out += tuned_line(report.explanation.ops[i].work.name, t);
  return out;
}

// "note: s, y: interpreted, which is slower: …": kernels of which the same is to be said share a line.
std::string notes(const Report& report) {
  std::vector<std::pair<std::string, std::string>> lines;  // note, kernels
  for (std::size_t i = 0; i < report.measured->ops.size(); ++i) {
    const std::string& note = report.measured->ops[i].note;
    if (note.empty()) continue;
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == note; });
    const std::string kernel = capped(kernel_name(report, i), 24);
    if (same == lines.end())
      lines.emplace_back(note, kernel);
    else
      same->second += "; " + kernel;
  }
  std::string out;
  for (const auto& [note, kernels] : lines) out += fmt::format("note: {}: {}\n", kernels, note);
  return out;
}

std::string measured_table(const Report& report, const Styled& styled) {
  const Measurement& measured = *report.measured;
  Rows rows{{"op", "limiter", "predicted", "measured", "min .. max", "runs", "of roof", "error", "of time"}};
  for (std::size_t i = 0; i < measured.ops.size(); ++i)
    rows.push_back(measured_row(capped(kernel_name(report, i), 24), report.explanation.ops[i], measured.ops[i]));
  rows.push_back(measured_row("total", report.explanation.total, measured.total));
  std::string out = styled.table(rows, {false, false, true, true, true, true, true, true, true});
  out += measured.device ? device_lines(report) : cpu_line(measured);
  out += fmt::format("checked {} of {} results against fp64\n", grouped(measured.total.checked),
                     grouped(measured.total.elements));
  for (const OpMeasurement& op : measured.ops)
    for (const std::string& copy : op.copies) out += "copied: " + copy + "\n";
  return out + notes(report);
}

// The sums of the operations, where something is said of them: which r is meant, and from where on it binds.
std::string sum_formulas(const Explanation& e, const Styled& styled) {
  std::string out;
  for (const Prediction* p : sums(e)) {
    out += "\n" + styled.bold(p->work.name) + "\n";
    Rows rows{{"  work", fmt::format("{} {}", p->work.flops.text(e.dim_names), unit(p->work))},
              {"  bytes", p->work.bytes().text(e.dim_names)}};
    if (!p->work.bytes_sent.zero()) rows.push_back({"  sent", p->work.bytes_sent.text(e.dim_names)});
    for (const Weight& w : p->weights)
      rows.push_back(
          {"  weight", fmt::format("{}: a FLOP on {} {} takes as long as so many of r's", significant(w.weight, 5),
                                   ridge::name(w.peak.unit), ridge::name(w.peak.dtype))});
    rows.push_back({"  r", fmt::format("{} FLOP/B", significant(p->thresholds.front().ratio, 5))});
    for (const Threshold& t : p->thresholds) rows.push_back({"  " + t.dim, threshold_text(t, true)});
    out += aligned(rows, {false, false});
  }
  return out;
}

std::string followers_line(const Explanation& e) {
  if (e.thresholds_left_out)
    return "thresholds are left out: the statements' dimensions squared come to more than " +
           grouped(static_cast<long long>(max_threshold_work)) + "; explain fewer statements at a time\n";
  std::string out;
  if (!e.unsolved.empty())
    out += fmt::format(
        "no threshold of {} for some operation: sizes without a value decide, or a mask ties another to it\n",
        fmt::join(e.unsolved, ", "));
  if (e.derived.empty()) return out;
  out += fmt::format("thresholds: what hangs on a dimension follows it, as under -d: {}", fmt::join(e.derived, ", "));
  return out + "\n";
}

std::string formulas(const Explanation& e, const Styled& styled) {
  std::string out;
  const bool is_open = open(e);
  for (const Prediction& p : e.ops) {
    out += "\n" + styled.bold(p.work.text) + "\n";
    Rows rows{{"  work", fmt::format("{} {}", p.work.flops.text(e.dim_names), unit(p.work))},
              {"  bytes", p.work.bytes().text(e.dim_names)}};
    if (!p.intensity_formula.empty()) rows.push_back({fmt::format("  {}/B", unit(p.work)), p.intensity_formula});
    if (!p.work.bytes_sent.zero()) rows.push_back({"  sent", p.work.bytes_sent.text(e.dim_names)});
    if (is_open && p.ridge) rows.push_back({"  ridge", fmt::format("{} {}/B", significant(*p.ridge), unit(p.work))});
    for (const Threshold& t : p.thresholds) rows.push_back({"  " + t.dim, threshold_text(t)});
    if (!p.work.collective.empty()) rows.push_back({"  network", p.work.collective});
    if (!p.missing.empty()) rows.push_back({"  missing", p.missing + " is not on record: the times leave it out"});
    out += aligned(rows, {false, false});
  }
  return out + sum_formulas(e, styled);
}

std::vector<std::string> source_row(const std::string& what, double value, std::string_view unit, const Sourced& from) {
  std::string source = std::string(name(from.origin));
  if (!from.source.empty()) source += ": " + from.source;
  if (!from.read_on.empty()) source += ", " + from.read_on;
  return {what, engineering(value, unit), source};
}

void add_peaks(Rows& rows, const std::vector<const Peak*>& peaks) {
  for (const Peak* peak : peaks) {
    const char* unit = info(peak->dtype).integer ? "OP/s" : "FLOP/s";
    rows.push_back(
        source_row(fmt::format("{} {}", name(peak->unit), name(peak->dtype)), peak->rate.value, unit, peak->rate));
    if (peak->sustained) rows.push_back(source_row("  sustained", peak->sustained->value, unit, *peak->sustained));
  }
}

// What a machine whose numbers are guessed is said to need.
std::string guessed_note(const Machine& machine) {
  switch (where(machine.name)) {
    case Where::cpu: return "guessed, not measured: `ridge probe` measures this machine";
    case Where::cuda: return "guessed, not measured: `ridge probe --on cuda` measures this machine";
    case Where::elsewhere: break;
  }
  return "guessed: nobody vouches for every number above";
}

std::string sources(const Explanation& e, const Styled& styled) {
  Rows rows;
  const std::vector<const Peak*> peaks = used_peaks(e);
  add_peaks(rows, peaks);
  if (!e.machine.memory.empty() && e.machine.memory.front().bandwidth) {
    const MemoryLevel& level = e.machine.memory.front();
    rows.push_back(source_row(level.name, level.bandwidth->value, "B/s", *level.bandwidth));
  }
  if (e.total.link && !e.machine.links.empty()) {
    const Link& link = e.machine.links.front();
    rows.push_back(source_row(link.name, link.bandwidth.value, "B/s", link.bandwidth));
  }
  std::string out = "\n" + aligned(rows, {false, true, false});
  if (weakest_origin(e.machine, peaks) == Origin::guessed) out += styled.warn(guessed_note(e.machine)) + "\n";
  return out;
}

}  // namespace

std::string threshold_text(const Threshold& t, bool sum) {
  if (t.relation == Relation::always) return fmt::format("{} for every {}", bound(t, true, sum), t.dim);
  if (t.relation == Relation::never) return fmt::format("{} for every {}", bound(t, false, sum), t.dim);
  std::string out = fmt::format("{} for {} {} {}", bound(t, true, sum), t.dim, name(t.relation),
                                t.value ? std::to_string(*t.value) : t.exact);
  if (t.value && !t.exact.empty()) out += ": " + t.exact;
  if (t.value_real && !t.numerical) out += fmt::format(" = {}", significant(*t.value_real, 5));
  if (t.numerical) out += ", solved numerically";
  if (!t.unit.empty()) out += fmt::format(", by the {} unit", t.unit);
  if (!t.condition.empty()) out += fmt::format(" if {}", t.condition);
  if (t.approx && !t.assuming.empty()) out += fmt::format("; {} where {}", significant(*t.approx, 5), t.assuming);
  if (!t.approx && !t.assuming.empty()) out += fmt::format("; where {}", t.assuming);
  return out;
}

std::string render_text(const Report& report, const TextStyle& style) {
  const Styled styled(style);
  std::string out = head(report, styled);
  if (report.measured) {
    out += measured_table(report, styled) + "\n";
  }
  if (!open(report.explanation)) out += predicted_table(report, styled);
  if (!report.measured) out += assumed_text(report.explanation);
  if (report.planned) out += plan_text(report);
  if (!report.measured) out += memory_text(report.explanation);
  if (!report.measured) out += formulas(report.explanation, styled);
  out += sources(report.explanation, styled);
  if (!report.measured)
    out += "a multiply-add counts as 2 FLOPs; bytes: each input read once, each result written once\n";
  if (!report.measured) out += followers_line(report.explanation);
  if (!report.measured && report.explanation.fused)
    out += "fused: intermediates stay where they are computed, in f32, and are never stored\n";
  return out;
}

std::string render_machine_text(const Machine& machine, const TextStyle& style) {
  const Styled styled(style);
  std::vector<const Peak*> peaks;
  for (const Peak& peak : machine.peaks) peaks.push_back(&peak);
  Rows rows;
  add_peaks(rows, peaks);
  for (const MemoryLevel& level : machine.memory) {
    if (level.bandwidth) rows.push_back(source_row(level.name, level.bandwidth->value, "B/s", *level.bandwidth));
    if (level.sustained)
      rows.push_back(source_row(level.name + " sustained", level.sustained->value, "B/s", *level.sustained));
    if (level.capacity) rows.push_back(source_row(level.name + " size", level.capacity->value, "B", *level.capacity));
  }
  for (const Link& link : machine.links) {
    const std::string each = link.count ? fmt::format("{} x {}", link.count->value, link.name) : link.name;
    rows.push_back(source_row(each, link.bandwidth.value, "B/s", link.bandwidth));
    if (link.sustained)
      rows.push_back(source_row(link.name + " sustained", link.sustained->value, "B/s", *link.sustained));
    if (link.topology) rows.push_back({link.name + " topology", std::string(ridge::name(*link.topology)), ""});
    if (link.latency) rows.push_back(source_row(link.name + " latency", link.latency->value, "s", *link.latency));
  }
  for (const auto& [key, number] : machine.numbers) {
    const std::string_view unit = unit_of(key);
    rows.push_back(source_row(key, number.value, unit, number));
    if (unit == "1") rows.back()[1] = fmt::format("{}", number.value);
  }
  return styled.bold(machine.name) + "  " + machine.title + "\n" + aligned(rows, {false, true, false});
}

std::string render_text(const ClaimVerdict& verdict) {
  std::string out = fmt::format("{}: {}\n  {}\n", verdict.right ? "right" : "wrong", verdict.claim, verdict.truth);
  if (!verdict.slip.empty()) out += "  slip: " + verdict.slip + "\n";
  return out;
}

}  // namespace ridge
