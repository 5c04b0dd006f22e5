// What a run measured, as text: a table of predicted beside measured, and how it was measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/report/words.h"

namespace ridge {
namespace {

// "93.1 %"; of what is in a cache "41.2 % of l3", or "in l3" where its rate was not measured.
std::string of_roof(const OpMeasurement& m) {
  const std::string cache = m.cache.empty() ? "" : " of " + m.cache;
  if (m.fraction_of_roof) return percent(*m.fraction_of_roof) + cache;
  return m.cache.empty() ? "-" : "in " + m.cache;
}

std::vector<std::string> measured_row(const std::string& op, const Prediction& p, const OpMeasurement& m) {
  return {op,
          limiter_text(p),
          unit_or_dash(p.time_lower_s, "s"),
          engineering(m.time.median, "s"),
          fmt::format("{} .. {}", engineering(m.time.min, "s"), engineering(m.time.max, "s")),
          std::to_string(m.time.runs),
          of_roof(m),
          m.max_rel_error == 0 ? "0" : fmt::format("{:.1e}", m.max_rel_error),
          percent(m.share)};
}

std::string cpu_line(const Measurement& measured) {
  if (measured.ranks && !measured.ranks->device.empty())
    return fmt::format("passes replayed as they were recorded; a device a rank, {}; seed {}; {} in memory\n",
                       measured.ranks->device, measured.seed,
                       engineering(static_cast<double>(measured.memory_bytes), "B"));
  return fmt::format("between the operations {}; {} thread{}, {}; seed {}; {} in memory\n",
                     engineering(std::max(0.0, measured.overhead_s), "s"), measured.threads,
                     measured.threads == 1 ? "" : "s", measured.isa, measured.seed,
                     engineering(static_cast<double>(measured.memory_bytes), "B"));
}

// "h: overhead-bound: 3.0 us at half of F, 3.1 us as it is, 3.3 us at double; 2.9 us of it is fixed"
std::string regime_line(const std::string& op, const Regime& r) {
  return fmt::format("{}: {}-bound: {} at half of {}, {} as it is, {} at double; {} of it is fixed\n",
                     shortened(op, name_width), r.limiter ? name(*r.limiter) : "?", engineering(r.half_s, "s"), r.dim,
                     engineering(r.once_s, "s"), engineering(r.double_s, "s"), engineering(r.fixed_s, "s"));
}

// "y: tuned earlier: sm90_128x192x64_pingpong, k in 2 pieces, 12.3 us; the model's choice 13.0 us (fastest of 8)"
std::string tuned_line(const std::string& op, const Tuned& t) {
  std::string out;
  const std::string kernel = t.kernel + (t.splits > 1 ? fmt::format(", k in {} pieces", t.splits) : std::string());
  const char* const when = t.now ? "now" : "earlier";
  if (t.candidates > 0 && t.is_model)
    out += fmt::format("{}: tuned {}: none of {} gains 2 % on the model's choice, {}, {}\n", shortened(op, name_width),
                       when, t.candidates, kernel, engineering(t.seconds, "s"));
  else if (t.candidates > 0)
    out += fmt::format("{}: tuned {}: {}, {}; the model's choice {} (fastest of {})\n", shortened(op, name_width), when,
                       kernel, engineering(t.seconds, "s"), engineering(t.model_seconds, "s"), t.candidates);
  if (t.remark.empty()) return out;
  return out + fmt::format("{}: {}{}\n", shortened(op, name_width), t.remark, t.now ? "" : "; --tune measures anew");
}

// "outliers: h in 3 of 41 runs, the longest 12.00 ms beside a median of 30.00 us: …"
std::string outlier_lines(const Report& report) {
  std::string out;
  const auto add = [&](const std::string& op, const Statistics& time) {
    if (time.outliers == 0) return;
    out += fmt::format("outliers: {} in {} of {} runs, the longest {} beside a median of {}\n", op, time.outliers,
                       time.runs, engineering(time.max, "s"), engineering(time.median, "s"));
  };
  for (std::size_t i = 0; i < report.measured->ops.size(); ++i) add(op_name(report, i), report.measured->ops[i].time);
  add("the whole program", report.measured->total.time);
  if (!out.empty()) out += "the system was not quiet: end other programs, or measure longer with --time 5s\n";
  return out;
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
    const std::string kernel = op_name(report, i);
    if (same == lines.end())
      lines.emplace_back(note, kernel);
    else
      same->second += "; " + kernel;
  }
  std::string out;
  for (const auto& [note, kernels] : lines) out += fmt::format("note: {}: {}\n", kernels, note);
  return out;
}

// Each rank's share of a pass, and the network's time beside what was predicted.
std::string ranks_text(const RanksNotes& notes, const Styled& styled) {
  Rows rows{{"rank", "words sent", "computing", "sending", "waiting"}};
  for (const RankShare& r : notes.ranks)
    rows.push_back({std::to_string(r.rank), grouped(r.words), engineering(r.compute_s, "s"),
                    engineering(r.network_s, "s"), engineering(r.wait_s, "s")});
  std::string out = "\n" + styled.table(rows, {true, true, true, true, true});
  out += fmt::format("{} of {} ranks: {} words a pass; products move {} at least where each tensor lies once\n",
                     notes.carrier, notes.ranks.size(), grouped(notes.words), grouped(std::llround(notes.words_bound)));
  out += fmt::format("network: predicted {}, measured {}\n", unit_or_dash(notes.predicted_s, "s"),
                     engineering(notes.measured_s, "s"));
  if (!notes.device.empty() && !notes.ranks.empty())
    out += fmt::format("computing of rank 0: predicted {}, measured {}\n", unit_or_dash(notes.computing_s, "s"),
                       engineering(notes.ranks.front().compute_s, "s"));
  for (const std::string& line : notes.in_chunks) out += line + "\n";
  if (!notes.grid.empty()) out += notes.grid + "\n";
  if (notes.written.empty()) return out;
  return out + (notes.grid.empty() ? "split as `ridge shard` ranks first:\n" : "spread so:\n") + notes.written;
}

}  // namespace

std::string measured_text(const Report& report, const Styled& styled) {
  const Measurement& measured = *report.measured;
  Rows rows{{"op", "limiter", "predicted", "measured", "min .. max", "runs", "of roof", "error", "of time"}};
  for (std::size_t i = 0; i < measured.ops.size(); ++i)
    rows.push_back(measured_row(op_name(report, i), report.explanation.ops[i], measured.ops[i]));
  rows.push_back(measured_row("total", report.explanation.total, measured.total));
  std::string out = styled.table(rows, {false, false, true, true, true, true, true, true, true});
  out += measured.device ? device_lines(report) : cpu_line(measured);
  out += fmt::format("checked {} of {} results against fp64\n", grouped(measured.total.checked),
                     grouped(measured.total.elements));
  out += outlier_lines(report);
  for (const OpMeasurement& op : measured.ops)
    for (const std::string& copy : op.copies) out += "copied: " + copy + "\n";
  out += notes(report);
  return measured.ranks ? out + ranks_text(*measured.ranks, styled) : out;
}

}  // namespace ridge
