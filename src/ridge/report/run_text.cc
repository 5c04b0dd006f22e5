// Text report of a run: predicted and measured times in one table, and how they were measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::vector<std::string> measured_row(const std::string& op, const Prediction& p, const OpMeasurement& m) {
  return {op,
          limiter_text(p),
          unit_or_dash(p.time_lower_s, "s"),
          unit_or_dash(m.predicted_s, "s"),
          format_with_prefix(m.time.median, "s"),
          fmt::format("{} .. {}", format_with_prefix(m.time.min, "s"), format_with_prefix(m.time.max, "s")),
          std::to_string(m.time.runs),
          roof_fraction_text(m),
          m.max_rel_error == 0 ? "0" : fmt::format("{:.1e}", m.max_rel_error),
          format_percent(m.share)};
}

std::string cpu_lines(const Measurement& measured) {
  if (measured.ranks && !measured.ranks->device.empty())
    return fmt::format("passes replayed as recorded; one device per rank, {}; seed {}; {} in memory\n",
                       measured.ranks->device, measured.seed,
                       format_with_prefix(static_cast<double>(measured.memory_bytes), "B"));
  return fmt::format("time between operations {}; {} thread{}, {}; seed {}; {} in memory\n",
                     format_with_prefix(std::max(0.0, measured.overhead_s), "s"), measured.threads,
                     measured.threads == 1 ? "" : "s", measured.isa, measured.seed,
                     format_with_prefix(static_cast<double>(measured.memory_bytes), "B"));
}

// "h: overhead-bound: 3.0 us at half of F, 3.1 us as given, 3.3 us at double; fixed part 2.9 us"
std::string bound_line(const std::string& op, const MeasuredBound& r) {
  return fmt::format("{}: {}-bound: {} at half of {}, {} as given, {} at double; fixed part {}\n",
                     truncate_text(op, op_name_width), r.limiter ? name(*r.limiter) : "?",
                     format_with_prefix(r.half_s, "s"), r.dim, format_with_prefix(r.actual_s, "s"),
                     format_with_prefix(r.double_s, "s"), format_with_prefix(r.fixed_s, "s"));
}

// "y: tuned earlier: sm90_128x192x64_pingpong, split-K 2, 12.3 us; the cost model's choice 13.0 us (fastest of 8)"
std::string tuned_line(const std::string& op, const TuningResult& t) {
  std::string out;
  const std::string kernel = t.kernel + (t.splits > 1 ? fmt::format(", split-K {}", t.splits) : std::string());
  const char* const time_word = t.measured_now ? "now" : "earlier";
  if (t.candidates > 0 && t.is_model)
    out += fmt::format("{}: tuned {}: none of {} is 2 % faster than the cost model's choice, {}, {}\n",
                       truncate_text(op, op_name_width), time_word, t.candidates, kernel,
                       format_with_prefix(t.seconds, "s"));
  else if (t.candidates > 0)
    out += fmt::format("{}: tuned {}: {}, {}; the cost model's choice {} (fastest of {})\n",
                       truncate_text(op, op_name_width), time_word, kernel, format_with_prefix(t.seconds, "s"),
                       format_with_prefix(t.model_seconds, "s"), t.candidates);
  if (t.remark.empty()) return out;
  return out + fmt::format("{}: {}{}\n", truncate_text(op, op_name_width), t.remark,
                           t.measured_now ? "" : "; --tune measures again");
}

// "outliers: h in 3 of 41 runs, the longest 12.00 ms, median 30.00 us"
std::string outlier_lines(const Report& report) {
  std::string out;
  const auto add = [&](const std::string& op, const Statistics& time) {
    if (time.outliers == 0) return;
    out += fmt::format("outliers: {} in {} of {} runs, the longest {}, median {}\n", op, time.outliers, time.runs,
                       format_with_prefix(time.max, "s"), format_with_prefix(time.median, "s"));
  };
  for (std::size_t i = 0; i < report.measured->ops.size(); ++i) add(op_name(report, i), report.measured->ops[i].time);
  add("the whole program", report.measured->total.time);
  if (!out.empty()) out += "the system was busy: stop other programs, or measure longer with --time 5s\n";
  return out;
}

std::string device_lines(const Report& report) {
  const Measurement& m = *report.measured;
  const DeviceMeasurement& d = *m.device;
  std::string out =
      fmt::format("cold L2, launched as a graph; {} per pass with separate launches; time between operations {}\n",
                  format_with_prefix(d.eager_s, "s"), format_with_prefix(m.overhead_s, "s"));
  out += fmt::format("{}, driver {}.{}; seed {}; {} in memory\n", d.name, d.driver / 1000, d.driver % 1000 / 10, m.seed,
                     format_with_prefix(static_cast<double>(m.memory_bytes), "B"));
  if (m.clocks.after_hz)
    out += fmt::format(
        "clock {} of {}, {:.0f} W{}{}\n", format_with_prefix(*m.clocks.after_hz, "Hz"),
        format_with_prefix(m.clocks.max_hz.value_or(0), "Hz"), m.clocks.power_w.value_or(0),
        m.clocks.throttle_reasons.empty() ? "" : ", limited by: ", fmt::join(m.clocks.throttle_reasons, ", "));
  const double copy_s = static_cast<double>(d.input_bytes) / d.host_to_device_bytes_per_s;
  out += fmt::format("host to device {}: copying the inputs, {}, takes {}, {} times the program's time\n",
                     format_with_prefix(d.host_to_device_bytes_per_s, "B/s"),
                     format_with_prefix(static_cast<double>(d.input_bytes), "B"), format_with_prefix(copy_s, "s"),
                     format_significant(copy_s / m.total.time.median, 3));
  for (std::size_t i = 0; i < m.ops.size(); ++i)
    if (m.ops[i].measured_bound) out += bound_line(report.explanation.ops[i].work.name, *m.ops[i].measured_bound);
  for (std::size_t i = 0; i < m.ops.size(); ++i)
    for (const TuningResult& t : m.ops[i].tuned) out += tuned_line(report.explanation.ops[i].work.name, t);
  return out;
}

// "note: s, y: one block per row, which is slower: ..."; kernels with the same note share a line.
std::string notes_text(const Report& report) {
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

// Returns each rank's times in a pass, and the network's predicted and measured time.
std::string ranks_text(const RanksMeasurement& notes, const TextStyler& styled) {
  TextRows rows{{"rank", "words sent", "computing", "sending", "waiting"}};
  for (const RankTimes& r : notes.ranks)
    rows.push_back({std::to_string(r.rank), group_digits(r.words_sent), format_with_prefix(r.compute_s, "s"),
                    format_with_prefix(r.network_s, "s"), format_with_prefix(r.wait_s, "s")});
  std::string out = "\n" + styled.format_table(rows, {.right = {true, true, true, true, true}, .is_in_csv = false});
  out += fmt::format("{} of {} ranks: {} words per pass; products need at least {} with one copy of each tensor\n",
                     notes.transport, notes.ranks.size(), group_digits(notes.words_sent),
                     group_digits(std::llround(notes.min_words)));
  out += fmt::format("network: predicted {}, measured {}\n", unit_or_dash(notes.predicted_s, "s"),
                     format_with_prefix(notes.measured_s, "s"));
  if (!notes.device.empty() && !notes.ranks.empty())
    out +=
        fmt::format("compute time of rank 0: predicted {}, measured {}\n", unit_or_dash(notes.predicted_compute_s, "s"),
                    format_with_prefix(notes.ranks.front().compute_s, "s"));
  for (const std::string& line : notes.overlap_notes) out += line + "\n";
  if (!notes.product_grid.empty()) out += notes.product_grid + "\n";
  if (notes.sharding_note.empty()) return out;
  return out + (notes.product_grid.empty() ? "sharding, the first choice of `ridge shard`:\n" : "sharding:\n") +
         notes.sharding_note;
}

}  // namespace

std::string roof_fraction_text(const OpMeasurement& m) {
  const std::string cache = m.cache.empty() ? "" : " of " + m.cache;
  if (m.fraction_of_roof) return format_percent(*m.fraction_of_roof) + cache;
  return m.cache.empty() ? "-" : "in " + m.cache;
}

std::string measured_text(const Report& report, const TextStyler& styled) {
  const Measurement& measured = *report.measured;
  TextRows rows{
      {"op", "limiter", "bound", "predicted", "measured", "min .. max", "runs", "of roof", "error", "of time"}};
  for (std::size_t i = 0; i < measured.ops.size(); ++i)
    rows.push_back(measured_row(op_name(report, i), report.explanation.ops[i], measured.ops[i]));
  rows.push_back(measured_row("total", report.explanation.total, measured.total));
  std::string out = styled.format_table(rows, {{false, false, true, true, true, true, true, true, true, true},
                                               {"runs", "min .. max", "limiter", "of time", "error"}});
  out += measured.device ? device_lines(report) : cpu_lines(measured);
  out += fmt::format("checked {} of {} results against fp64\n", group_digits(measured.total.checked),
                     group_digits(measured.total.elements));
  const std::vector<const Peak*> peaks = used_peaks(report.explanation);
  if (measured.total.fraction_of_roof.value_or(0) > 1 &&
      least_certain_origin(report.explanation.machine, peaks) == Origin::guessed)
    out += "above 100 %: the guessed numbers below are too low, so these times are no bounds\n";
  for (const OpMeasurement& op : measured.ops)
    for (const std::string& warning : op.warnings) out += "warning: " + warning + "\n";
  out += outlier_lines(report);
  for (const OpMeasurement& op : measured.ops)
    for (const std::string& copy : op.copies) out += "copied: " + copy + "\n";
  out += notes_text(report);
  return measured.ranks ? out + ranks_text(*measured.ranks, styled) : out;
}

}  // namespace ridge
