// Text of one threshold, and the list of all thresholds of a program. Operations with the same threshold share a line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ridge/base/contains.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_expression_length = 32;  // max characters of an expression in the list without --all

// "memory time", or "matrix unit's time" if the units are compared separately.
std::string time_text(const Threshold& t, Limiter roof) {
  if (roof == Limiter::compute && !t.unit.empty()) return fmt::format("{} unit's time", t.unit);
  return fmt::format("{} time", name(roof));
}

// Returns "compute-bound" or "memory-bound" if these two roofs decide, else "compute time exceeds network time".
std::string bound_text(const Threshold& t, bool first) {
  const Limiter over = t.roofs[first ? 0 : 1], under = t.roofs[first ? 1 : 0];
  const bool is_compute_memory = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
  if (is_compute_memory && t.decides_limiter) return std::string(name(over)) + "-bound";
  return fmt::format("{} exceeds {}", time_text(t, over), time_text(t, under));
}

bool has_crossing(const Threshold& t) { return t.relation == Relation::at_least || t.relation == Relation::at_most; }

// "for B >= 256", "for every B"
std::string range_text(const Threshold& t) {
  if (!has_crossing(t)) return fmt::format("every {}", t.dim);
  return fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
}

// "255.54", " = r*D*F/(D*F - r*(D + F))", "; 240.54 where B << D, F"; the last parts are dropped first.
std::vector<std::string> derivation_parts(const Threshold& t, bool all) {
  if (!has_crossing(t)) return {};
  std::vector<std::string> out;
  if (t.numerical) out.emplace_back("solved numerically");
  if (t.value_real && !t.numerical) out.push_back(format_significant(*t.value_real, 5));
  if (t.value && !t.exact.empty() && (all || t.exact.size() <= max_expression_length)) out.push_back(" = " + t.exact);
  if (!t.condition.empty()) out.push_back(fmt::format("{}if {}", out.empty() ? "" : " ", t.condition));
  if (t.approx && !t.assuming.empty())
    out.push_back(fmt::format("{}{} where {}", out.empty() ? "" : "; ", format_significant(*t.approx, 5), t.assuming));
  return out;
}

struct ThresholdLine {
  std::string range, meaning;
  std::vector<std::string> derivation;
  std::vector<std::string> names;
};

void add_line(std::vector<ThresholdLine>& lines, const Threshold& t, const std::string& op, bool all) {
  const ThresholdLine line{range_text(t), bound_text(t, t.relation != Relation::never), derivation_parts(t, all), {op}};
  const auto same = std::find_if(lines.begin(), lines.end(), [&](const ThresholdLine& l) {
    return l.range == line.range && l.meaning == line.meaning && l.derivation == line.derivation;
  });
  if (same == lines.end())
    lines.push_back(line);
  else
    same->names.push_back(op);
}

std::vector<std::string> line_cells(const ThresholdLine& line) {
  return {line.range, truncate_text(fmt::format("{}", fmt::join(line.names, ", ")), 32), line.meaning};
}

// Joins the leading pieces that fit into `max_columns`, at least one.
std::string join_fitting(const std::vector<std::string>& pieces, std::size_t max_columns) {
  std::string out;
  for (const std::string& piece : pieces) {
    if (!out.empty() && count_characters(out) + count_characters(piece) > max_columns) break;
    out += piece;
  }
  return out;
}

// Returns the lines of `dim`: thresholds first, then limiters that hold for every size.
std::vector<ThresholdLine> list_dim_lines(const Report& report, const std::string& dim, bool all) {
  const Explanation& e = report.explanation;
  std::vector<ThresholdLine> lines;
  for (const bool crossing : {true, false}) {
    for (std::size_t i = 0; i < e.ops.size(); ++i)
      for (const Threshold& t : e.ops[i].thresholds)
        if (t.dim == dim && has_crossing(t) == crossing) add_line(lines, t, op_name(report, i), all);
    for (const Prediction* p : sums_with_thresholds(e))
      for (const Threshold& t : p->thresholds)
        if (t.dim == dim && has_crossing(t) == crossing) add_line(lines, t, p->work.name, all);
  }
  return lines;
}

}  // namespace

std::string threshold_text(const Threshold& t) {
  if (t.relation == Relation::always) return fmt::format("{} for every {}", bound_text(t, true), t.dim);
  if (t.relation == Relation::never) return fmt::format("{} for every {}", bound_text(t, false), t.dim);
  std::string out = fmt::format("{} for {}", bound_text(t, true), range_text(t));
  if (t.value && !t.exact.empty()) out += ": " + t.exact;
  if (t.value_real && !t.numerical) out += fmt::format(" = {}", format_significant(*t.value_real, 5));
  if (t.numerical) out += ", solved numerically";
  if (!t.condition.empty()) out += fmt::format(" if {}", t.condition);
  if (t.approx && !t.assuming.empty())
    out += fmt::format("; {} where {}", format_significant(*t.approx, 5), t.assuming);
  if (!t.approx && !t.assuming.empty()) out += fmt::format("; where {}", t.assuming);
  return out;
}

bool is_shown_dim(const Report& report, const std::string& dim) {
  return report.threshold_dims.empty() || contains(report.threshold_dims, dim);
}

std::string thresholds_text(const Report& report, const TextStyler& styled, bool all) {
  constexpr std::size_t width = 120;
  std::vector<ThresholdLine> lines;
  for (const std::string& dim : report.explanation.dim_names) {
    if (!all && !is_shown_dim(report, dim)) continue;
    const std::vector<ThresholdLine> more = list_dim_lines(report, dim, all);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (lines.empty()) return {};
  std::array<std::size_t, 3> widest{};
  for (const ThresholdLine& line : lines)
    for (std::size_t i = 0; i < widest.size(); ++i)
      widest[i] = std::max(widest[i], count_characters(line_cells(line)[i]));
  const std::size_t used_columns = widest[0] + widest[1] + widest[2] + 2 * widest.size();
  TextRows rows;
  for (const ThresholdLine& line : lines) {
    rows.push_back(line_cells(line));
    rows.back().push_back(
        join_fitting(line.derivation, all ? std::string::npos : width - std::min(width, used_columns)));
  }
  const auto& derived = report.explanation.derived;
  const std::string derived_note =
      derived.empty() ? "" : fmt::format("; derived sizes follow: {}", fmt::join(derived, ", "));
  return "\n" + styled.bold("thresholds, other dimensions fixed" + derived_note) + "\n" +
         styled.format_rows(rows, {false, false, false, false}, {"size", "operations", "limiter", "derivation"});
}

}  // namespace ridge
