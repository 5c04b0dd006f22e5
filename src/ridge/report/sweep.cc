#include "ridge/report/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "ridge/base/contains.h"
#include "ridge/base/cores.h"
#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

// Sizes of one point of a sweep, by range.
class SweepSizes {
 public:
  SweepSizes(const Sweep& sweep, std::size_t point) : sweep_(sweep), at_(sweep.ranges.size()) {
    for (std::size_t i = at_.size(); i-- > 0; point /= sweep.ranges[i].values.size())
      at_[i] = point % sweep.ranges[i].values.size();
  }
  std::int64_t operator[](std::size_t range) const { return sweep_.ranges[range].values[at_[range]]; }
  void advance() {
    for (std::size_t i = at_.size(); i-- > 0;) {
      at_[i] = at_[i] + 1 == sweep_.ranges[i].values.size() ? 0 : at_[i] + 1;
      if (at_[i] != 0) return;
    }
  }

 private:
  const Sweep& sweep_;
  std::vector<std::size_t> at_;
};

// Returns "memory to compute", or an empty string. `point` must not be the first of its line.
std::string crossover_text(const SweepPoint* point) {
  return point->limiter_changed ? fmt::format("{} to {}", name((point - 1)->limiter), name(point->limiter)) : "";
}

bool is_split(const Sweep& sweep) { return !sweep.lines.empty() && sweep.lines.front().split.has_value(); }
bool has_traffic(const Sweep& sweep) {
  return std::any_of(sweep.lines.begin(), sweep.lines.end(), [](const SweepLine& line) { return line.sends; });
}
std::string chips_text(const SweepLine& line) { return line.split ? std::to_string(line.split->chips) : ""; }

std::vector<std::string> header_cells(const Sweep& sweep) {
  return is_split(sweep) ? std::vector<std::string>{"machine", "dtype", "chips"}
                         : std::vector<std::string>{"machine", "dtype"};
}
std::vector<std::string> label_cells(const SweepLine& line) {
  std::vector<std::string> out{line.machine, line.dtype};
  if (line.split) out.push_back(chips_text(line));
  return out;
}

void append_csv_row(std::string& out, const SweepLine& line, const SweepPoint& point, const SweepSizes& sizes,
                    std::size_t n, bool sends) {
  const auto to = std::back_inserter(out);
  out += line.machine;
  out += ',';
  out += line.dtype;
  if (line.split) out += "," + chips_text(line);
  for (std::size_t i = 0; i < n; ++i) fmt::format_to(to, ",{}", sizes[i]);
  if (point.flops < 0)
    out += ",,,";
  else
    fmt::format_to(to, ",{},{},{:.7g}", point.flops, point.bytes,
                   static_cast<double>(point.flops) / static_cast<double>(point.bytes));
  if (point.time_lower_s < 0)
    out += ",,,";
  else
    fmt::format_to(to, ",{},{:.7g},{:.7g}", name(point.limiter), point.time_lower_s, point.time_upper_s);
  if (sends && point.time_lower_s < 0)
    out += ",,";
  else if (sends)
    fmt::format_to(to, ",{:.7g},{:.7g}", point.time_network_s, point.bytes_sent);
  out += ',';
  out += crossover_text(&point);
  out += ',';
  if (point.reason != 0) out += csv_cell(line.reasons[point.reason]);
  out += '\n';
}

// Returns rows from..to of a line. With 10^6 rows this dominates a sweep's time, so threads share it.
std::string csv_rows(const Sweep& sweep, const SweepLine& line, std::size_t from, std::size_t to) {
  std::string out;
  out.reserve((to - from) * 96);
  SweepSizes sizes(sweep, from);
  const bool sends = has_traffic(sweep);
  for (std::size_t i = from; i < to; ++i, sizes.advance())
    append_csv_row(out, line, line.points[i], sizes, sweep.ranges.size(), sends);
  return out;
}

// Formats long lines with all cores.
std::string format_csv_rows_in_threads(const Sweep& sweep, const SweepLine& line) {
  const std::size_t n = line.points.size(), threads = static_cast<std::size_t>(usable_cores());
  if (n < 16384 || threads == 1) return csv_rows(sweep, line, 0, n);
  std::vector<std::string> parts(threads);
  {
    std::vector<std::jthread> all;
    for (std::size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] { parts[t] = csv_rows(sweep, line, n * t / threads, n * (t + 1) / threads); });
  }
  std::string out = std::move(parts[0]);
  for (std::size_t t = 1; t < threads; ++t) out += parts[t];
  return out;
}

// Returns "D = 8192, F = 8192" for the ranges with several values, without the last range; with `last`, only that one.
std::string sizes_text(const Sweep& sweep, std::size_t point, bool is_last) {
  std::string out;
  for (std::size_t i = 0; i < sweep.ranges.size(); ++i) {
    if (sweep.ranges[i].values.size() == 1 || (i + 1 == sweep.ranges.size()) != is_last) continue;
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", sweep.ranges[i].dim, sweep.size_at(point, i));
  }
  return out;
}

constexpr std::size_t max_rows = 64;

Cells point_table(const Sweep& sweep) {
  Cells cells{header_cells(sweep)};
  for (const DimensionValues& range : sweep.ranges) cells[0].push_back(range.dim);
  for (const char* head : {"work", "bytes", "FLOP/B", "limiter", "lower", "no overlap"}) cells[0].emplace_back(head);
  const bool sends = has_traffic(sweep);
  if (sends) cells[0].insert(cells[0].end(), {"network", "sent"});
  for (const SweepLine& line : sweep.lines)
    for (std::size_t i = 0; i < line.points.size() && cells.size() <= max_rows; ++i) {
      const SweepPoint& p = line.points[i];
      std::vector<std::string> row = label_cells(line);
      for (std::size_t r = 0; r < sweep.ranges.size(); ++r) row.push_back(std::to_string(sweep.size_at(i, r)));
      const bool known = p.flops >= 0, timed = p.time_lower_s >= 0;
      row.push_back(known ? format_with_prefix(static_cast<double>(p.flops), "FLOP") : "-");
      row.push_back(known ? format_with_prefix(static_cast<double>(p.bytes), "B") : "-");
      row.push_back(known ? format_significant(static_cast<double>(p.flops) / static_cast<double>(p.bytes)) : "-");
      row.emplace_back(timed ? name(p.limiter) : "-");
      row.push_back(timed ? format_with_prefix(p.time_lower_s, "s") : "-");
      row.push_back(timed ? format_with_prefix(p.time_upper_s, "s") : "-");
      if (sends) row.push_back(timed ? format_with_prefix(p.time_network_s, "s") : "-");
      if (sends) row.push_back(timed ? format_with_prefix(p.bytes_sent, "B") : "-");
      cells.push_back(std::move(row));
    }
  return cells;
}

// Returns "B = 310", the first size with the new limiter if it was searched for, else the size of the point.
std::string change_position(const Sweep& sweep, const SweepLine& line, std::size_t point) {
  for (const SweepChange& change : line.changes)
    if (change.point == point) return fmt::format("{} = {}", sweep.ranges.back().dim, change.first);
  return sizes_text(sweep, point, true);
}

}  // namespace

Cells changes_table(const Sweep& sweep) {
  Cells cells{header_cells(sweep)};
  cells[0].insert(cells[0].end(), {"at", "changes from", "with"});
  for (const SweepLine& line : sweep.lines)
    for (std::size_t i = 0; i < line.points.size() && cells.size() <= max_rows; ++i)
      if (line.points[i].limiter_changed) {
        cells.push_back(label_cells(line));
        for (std::string& cell :
             std::vector{change_position(sweep, line, i), crossover_text(&line.points[i]), sizes_text(sweep, i, false)})
          cells.back().push_back(std::move(cell));
      }
  return cells;
}

namespace {

bool has_times(const Sweep& sweep) {
  return std::any_of(sweep.lines.begin(), sweep.lines.end(), [](const SweepLine& line) {
    return std::any_of(line.points.begin(), line.points.end(), [](const SweepPoint& p) { return p.time_lower_s >= 0; });
  });
}

// "1.300 us .. 2.171 us", or one time if all are equal
std::string time_range_text(const SweepLine& line) {
  std::optional<double> low, high;
  for (const SweepPoint& point : line.points) {
    if (point.time_lower_s < 0) continue;
    low = std::min(low.value_or(point.time_lower_s), point.time_lower_s);
    high = std::max(high.value_or(point.time_lower_s), point.time_lower_s);
  }
  if (!low) return "-";
  const std::string first = format_with_prefix(*low, "s"), last = format_with_prefix(*high, "s");
  return first == last ? first : fmt::format("{} .. {}", first, last);
}

// Returns the limiters of a line, in order of appearance: they may differ along ranges before the last.
std::string limiters_text(const SweepLine& line) {
  std::vector<std::string> found;
  for (const SweepPoint& point : line.points)
    if (std::string limiter(name(point.limiter)); point.time_lower_s >= 0 && !contains(found, limiter))
      found.push_back(std::move(limiter));
  return found.empty() ? "-" : fmt::format("{}", fmt::join(found, ", "));
}

// One row per line of the sweep: its limiter and the range of its times.
Cells constant_limiter_table(const Sweep& sweep) {
  Cells cells{header_cells(sweep)};
  cells[0].insert(cells[0].end(), {"limiter", "lower"});
  for (const SweepLine& line : sweep.lines) {
    cells.push_back(label_cells(line));
    cells.back().push_back(limiters_text(line));
    cells.back().push_back(time_range_text(line));
  }
  return cells;
}

// Returns one line per cause: "unknown at 3 points: a count leaves 2^63".
std::string unknown_text(const Sweep& sweep) {
  std::vector<std::pair<std::string, long long>> causes;
  for (const SweepLine& line : sweep.lines) {
    std::vector<long long> counts(line.reasons.size());
    for (const SweepPoint& point : line.points) ++counts[point.reason];
    for (std::size_t i = 1; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const auto known =
          std::find_if(causes.begin(), causes.end(), [&](const auto& cause) { return cause.first == line.reasons[i]; });
      if (known == causes.end())
        causes.emplace_back(line.reasons[i], counts[i]);
      else
        known->second += counts[i];
    }
  }
  std::string out;
  for (const auto& [why, points] : causes)
    out += fmt::format("unknown at {} {}: {}\n", group_digits(points), points == 1 ? "point" : "points", why);
  return out;
}

// Returns which numbers machines lack; times exclude these.
std::string missing_text(const Sweep& sweep) {
  std::vector<std::string> reported;
  std::string out;
  for (const SweepLine& line : sweep.lines) {
    if (line.missing.empty() || contains(reported, line.missing)) continue;
    reported.push_back(line.missing);
    out += fmt::format("left out: {} is unknown; times are bounds without it\n", line.missing);
  }
  return out;
}

std::size_t count_points(const Sweep& sweep) {
  std::size_t n = 0;
  for (const SweepLine& line : sweep.lines) n += line.points.size();
  return n;
}

std::string render_tables(const Sweep& sweep, const TextStyle& style, bool markdown) {
  const auto render = [&](const Cells& cells, const std::vector<bool>& right) {
    return markdown ? markdown_table(cells, right)
                    : text_table(cells, {right, {"FLOP/B", "no overlap", "work", "bytes"}}, style);
  };
  std::string out;
  const std::size_t points = count_points(sweep);
  const std::size_t label_count = header_cells(sweep).size();
  std::vector<bool> right(label_count + sweep.ranges.size() + 8, true);
  right[0] = right[1] = right[label_count + sweep.ranges.size() + 3] = false;
  if (points <= max_rows) out += render(point_table(sweep), right) + "\n";
  const Cells crossovers = changes_table(sweep);
  if (crossovers.size() == 1 && has_times(sweep))
    out += (points > max_rows ? render(constant_limiter_table(sweep), {}) : "") +
           (unknown_text(sweep).empty() ? "the limiter does not change along the last range\n"
                                        : "the limiter does not change where it is known\n");
  else if (crossovers.size() > 1)
    out += render(crossovers, {false, false, false, false, false});
  if (crossovers.size() > max_rows) out += fmt::format("only the first {} changes are shown\n", max_rows);
  const std::string causes = unknown_text(sweep) + missing_text(sweep);
  if (!causes.empty()) out += "\n" + causes;
  if (points > max_rows)
    out += fmt::format("{} points: --csv prints them all\n", group_digits(static_cast<long long>(points)));
  return out;
}

}  // namespace

std::string render_text(const Sweep& sweep, const TextStyle& style) { return render_tables(sweep, style, false); }
std::string render_markdown(const Sweep& sweep) { return render_tables(sweep, {}, true); }

std::string render_csv(const Sweep& sweep) {
  std::string out = is_split(sweep) ? "machine,dtype,chips" : "machine,dtype";
  for (const DimensionValues& range : sweep.ranges) out += "," + range.dim;
  out += ",flops,bytes,intensity,limiter,time_lower_s,time_upper_s";
  if (has_traffic(sweep)) out += ",time_network_s,bytes_sent";
  out += ",crossover,unknown\n";
  for (const SweepLine& line : sweep.lines) out += format_csv_rows_in_threads(sweep, line);
  return out;
}

namespace {

Json sweep_changes_json(const SweepLine& line, const std::string& dim) {
  Json out = Json::array();
  for (const SweepChange& change : line.changes)
    out.push_back({{"point", change.point},
                   {"dim", dim},
                   {"first", change.first},
                   {"from", name(change.from)},
                   {"to", name(change.to)}});
  return out;
}

// `dim`: the dimension along which the points of the line differ.
Json sweep_line_json(const SweepLine& line, const std::string& dim) {
  Json one{{"machine", line.machine}, {"dtype", line.dtype}};
  if (line.split) one["split"] = {{"dim", line.split->dim}, {"chips", line.split->chips}};
  Json network = Json::array(), sent = Json::array();
  Json flops = Json::array(), bytes = Json::array(), limiter = Json::array(), lower = Json::array(),
       upper = Json::array(), crossovers = Json::array(), unknown = Json::object();
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const SweepPoint& p = line.points[i];
    const bool known = p.flops >= 0, timed = p.time_lower_s >= 0;
    flops.push_back(known ? count_json(p.flops) : Json(nullptr));
    bytes.push_back(known ? count_json(p.bytes) : Json(nullptr));
    limiter.push_back(timed ? Json(name(p.limiter)) : Json(nullptr));
    lower.push_back(timed ? Json(p.time_lower_s) : Json(nullptr));
    upper.push_back(timed ? Json(p.time_upper_s) : Json(nullptr));
    if (line.sends) network.push_back(timed ? Json(p.time_network_s) : Json(nullptr));
    if (line.sends) sent.push_back(timed ? Json(p.bytes_sent) : Json(nullptr));
    if (p.limiter_changed) crossovers.push_back(i);
    if (p.reason != 0) unknown[line.reasons[p.reason]].push_back(i);
  }
  one["flops"] = std::move(flops);
  one["bytes"] = std::move(bytes);
  one["limiter"] = std::move(limiter);
  one["time_lower_s"] = std::move(lower);
  one["time_upper_s"] = std::move(upper);
  if (line.sends) one["time_network_s"] = std::move(network);
  if (line.sends) one["bytes_sent"] = std::move(sent);
  if (!line.missing.empty()) one["left_out"] = line.missing;
  one["crossovers"] = std::move(crossovers);
  one["changes"] = sweep_changes_json(line, dim);
  one["unknown"] = std::move(unknown);
  return one;
}

}  // namespace

std::string render_json(const Sweep& sweep) {
  Json out{{"schema", "ridge.sweep/1"}, {"verb", "sweep"}, {"program", sweep.program_text}};
  out["ranges"] = Json::object();
  for (const DimensionValues& range : sweep.ranges) out["ranges"][range.dim] = range.values;
  out["lines"] = Json::array();
  for (const SweepLine& line : sweep.lines) out["lines"].push_back(sweep_line_json(line, sweep.ranges.back().dim));
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
