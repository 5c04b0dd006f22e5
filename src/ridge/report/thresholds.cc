// Thresholds in words: one by itself, and all of a program as a list in which what changes at one size shares a line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ridge/report/parts/used.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

constexpr std::size_t readable = 32;  // characters of an expression that the list shows without being asked for all

// "compute-bound": of compute and memory the one; of other pairs both are named, "compute over network".
std::string bound(const Threshold& t, bool first, bool sum) {
  const std::string over(name(t.roofs[first ? 0 : 1])), under(name(t.roofs[first ? 1 : 0]));
  const bool usual = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
  if (usual && !sum) return over + "-bound";
  const std::string by = t.unit.empty() ? "" : fmt::format(" by the {} unit", t.unit);
  return fmt::format("more {} than {} time{}", over, under, by);
}

bool is_crossing(const Threshold& t) { return t.relation == Relation::at_least || t.relation == Relation::at_most; }

// "for B >= 256", "for every B"
std::string range_of(const Threshold& t) {
  if (!is_crossing(t)) return fmt::format("every {}", t.dim);
  return fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
}

// "255.54", " = r*D*F/(D*F - r*(D + F))" and "; 240.54 where B << D, F": what is left out first stands last.
std::vector<std::string> derivation(const Threshold& t, bool all) {
  if (!is_crossing(t)) return {};
  std::vector<std::string> out;
  if (t.numerical) out.emplace_back("solved numerically");
  if (t.value_real && !t.numerical) out.push_back(significant(*t.value_real, 5));
  if (t.value && !t.exact.empty() && (all || t.exact.size() <= readable)) out.push_back(" = " + t.exact);
  if (!t.condition.empty()) out.push_back(fmt::format("{}if {}", out.empty() ? "" : " ", t.condition));
  if (t.approx && !t.assuming.empty())
    out.push_back(fmt::format("{}{} where {}", out.empty() ? "" : "; ", significant(*t.approx, 5), t.assuming));
  return out;
}

struct ThresholdLine {
  std::string range, meaning;
  std::vector<std::string> derivation;
  std::vector<std::string> names;
};

void add(std::vector<ThresholdLine>& lines, const Threshold& t, const std::string& op, bool sum, bool all) {
  const ThresholdLine line{range_of(t), bound(t, t.relation != Relation::never, sum), derivation(t, all), {op}};
  const auto same = std::find_if(lines.begin(), lines.end(), [&](const ThresholdLine& l) {
    return l.range == line.range && l.meaning == line.meaning && l.derivation == line.derivation;
  });
  if (same == lines.end())
    lines.push_back(line);
  else
    same->names.push_back(op);
}

std::vector<std::string> cells_of(const ThresholdLine& line) {
  return {line.range, shortened(fmt::format("{}", fmt::join(line.names, ", ")), 32), line.meaning};
}

// As many pieces as there is room for, the first in any case.
std::string fitted(const std::vector<std::string>& pieces, std::size_t room) {
  std::string out;
  for (const std::string& piece : pieces) {
    if (!out.empty() && columns(out) + columns(piece) > room) break;
    out += piece;
  }
  return out;
}

// Crossings first, then what holds for every size.
std::vector<ThresholdLine> lines_of(const Report& report, const std::string& dim, bool all) {
  const Explanation& e = report.explanation;
  std::vector<ThresholdLine> lines;
  for (const bool crossing : {true, false}) {
    for (std::size_t i = 0; i < e.ops.size(); ++i)
      for (const Threshold& t : e.ops[i].thresholds)
        if (t.dim == dim && is_crossing(t) == crossing) add(lines, t, op_name(report, i), false, all);
    for (const Prediction* p : sums(e))
      for (const Threshold& t : p->thresholds)
        if (t.dim == dim && is_crossing(t) == crossing) add(lines, t, p->work.name, true, all);
  }
  return lines;
}

}  // namespace

std::string threshold_text(const Threshold& t, bool sum) {
  if (t.relation == Relation::always) return fmt::format("{} for every {}", bound(t, true, sum), t.dim);
  if (t.relation == Relation::never) return fmt::format("{} for every {}", bound(t, false, sum), t.dim);
  std::string out = fmt::format("{} for {}", bound(t, true, sum), range_of(t));
  if (t.value && !t.exact.empty()) out += ": " + t.exact;
  if (t.value_real && !t.numerical) out += fmt::format(" = {}", significant(*t.value_real, 5));
  if (t.numerical) out += ", solved numerically";
  if (!t.condition.empty()) out += fmt::format(" if {}", t.condition);
  if (t.approx && !t.assuming.empty()) out += fmt::format("; {} where {}", significant(*t.approx, 5), t.assuming);
  if (!t.approx && !t.assuming.empty()) out += fmt::format("; where {}", t.assuming);
  return out;
}

bool is_asked(const Report& report, const std::string& dim) {
  return report.asked.empty() || std::find(report.asked.begin(), report.asked.end(), dim) != report.asked.end();
}

std::string thresholds_text(const Report& report, const Styled& styled, bool all) {
  constexpr std::size_t width = 120;
  std::vector<ThresholdLine> lines;
  for (const std::string& dim : report.explanation.dim_names) {
    if (!all && !is_asked(report, dim)) continue;
    const std::vector<ThresholdLine> more = lines_of(report, dim, all);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (lines.empty()) return {};
  std::array<std::size_t, 3> widest{};
  for (const ThresholdLine& line : lines)
    for (std::size_t i = 0; i < widest.size(); ++i) widest[i] = std::max(widest[i], columns(cells_of(line)[i]));
  const std::size_t taken = widest[0] + widest[1] + widest[2] + 2 * widest.size();
  Rows rows;
  for (const ThresholdLine& line : lines) {
    rows.push_back(cells_of(line));
    rows.back().push_back(fitted(line.derivation, all ? std::string::npos : width - std::min(width, taken)));
  }
  const auto& derived = report.explanation.derived;
  const std::string kept = derived.empty() ? "" : fmt::format("; kept, as under -d: {}", fmt::join(derived, ", "));
  return "\n" + styled.bold("thresholds, the other dimensions held" + kept) + "\n" +
         aligned(rows, {false, false, false, false});
}

}  // namespace ridge
