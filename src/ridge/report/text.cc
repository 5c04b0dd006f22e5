// The report for eyes: the answer, what each operation costs and what binds it as one table, where limiters change, and
// last where the machine's numbers come from. A program of one operation, or with dimensions that have no value, shows
// its formulas; others keep them for --all and the working for --steps. "-" stands for what is not known.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/report/parts/assumed.h"
#include "ridge/report/parts/used.h"
#include "ridge/report/plan.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

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

std::string head(const Report& report, const Styled& styled) {
  const Explanation& e = report.explanation;
  std::string out = styled.bold(fmt::format("{}  on {}", report.title, e.machine.name));
  if (!e.machine.title.empty() && e.machine.title != e.machine.name) out += fmt::format(" ({})", e.machine.title);
  const std::string dims = dims_text(e);
  out += "\n";
  if (!dims.empty()) out += "dims" + dims + "\n";
  if (!report.weights.empty()) out += fmt::format("weights stored as {}\n", report.weights);
  if (e.split) out += fmt::format("one of {} chips, {} split\n", e.split->chips, dims_text(*e.split));
  out += mesh_line(e);
  return is_open(e) ? out : out + "\n";
}

std::vector<std::string> predicted_row(const Explanation& e, const std::string& op, const Prediction& p) {
  const auto share = share_of(e, p);
  return {op,
          share ? percent(*share) : "-",
          unit_or_dash(p.flops, work_unit(p.work)),
          unit_or_dash(p.bytes, "B"),
          number_or_dash(p.intensity),
          number_or_dash(p.ridge),
          limiter_text(p),
          unit_or_dash(p.time_lower_s, "s"),
          unit_or_dash(p.time_upper_s, "s"),
          unit_or_dash(p.time_network_s, "s"),
          unit_or_dash(p.bytes_sent, "B")};
}

// The sums of the operations, where something is said of them: which r is meant, and from where on it binds.
std::string sum_formulas(const Report& report, const Styled& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  for (const Prediction* p : sums(e)) {
    out += "\n" + styled.bold(p->work.name) + "\n";
    Rows rows{{"  work", fmt::format("{} {}", p->work.flops.text(e.dim_names), work_unit(p->work))},
              {"  bytes", p->work.bytes().text(e.dim_names)}};
    if (!p->work.bytes_sent.zero()) rows.push_back({"  sent", p->work.bytes_sent.text(e.dim_names)});
    for (const Weight& w : p->weights)
      rows.push_back(
          {"  weight", fmt::format("{}: a FLOP on {} {} takes as long as so many of r's", significant(w.weight, 5),
                                   ridge::name(w.peak.unit), ridge::name(w.peak.dtype))});
    rows.push_back({"  r", fmt::format("{} FLOP/B", significant(p->thresholds.front().ratio, 5))});
    for (const Threshold& t : p->thresholds)
      if (all || is_asked(report, t.dim)) rows.push_back({"  " + t.dim, threshold_text(t, true)});
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
  return out;
}

// " = 62.06", where the formula does not say it.
std::string decimal(const Prediction& p) {
  if (!p.intensity || significant(*p.intensity) == p.intensity_formula) return {};
  return " = " + significant(*p.intensity);
}

std::string formulas(const Report& report, const Styled& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  for (const Prediction& p : e.ops) {
    out += "\n" + styled.bold(p.work.text) + "\n";
    Rows rows{{"  work", fmt::format("{} {}", p.work.flops.text(e.dim_names), work_unit(p.work))},
              {"  bytes", p.work.bytes().text(e.dim_names)}};
    if (!p.intensity_formula.empty())
      rows.push_back({fmt::format("  {}/B", work_unit(p.work)), p.intensity_formula + decimal(p)});
    if (!p.work.bytes_sent.zero()) rows.push_back({"  sent", p.work.bytes_sent.text(e.dim_names)});
    if (is_open(e) && p.ridge)
      rows.push_back({"  ridge", fmt::format("{} {}/B", significant(*p.ridge), work_unit(p.work))});
    for (const Threshold& t : p.thresholds)
      if (all || is_asked(report, t.dim)) rows.push_back({"  " + t.dim, threshold_text(t)});
    if (!p.work.collective.empty()) rows.push_back({"  network", p.work.collective});
    if (!p.missing.empty()) rows.push_back({"  missing", p.missing + " is not on record: the times leave it out"});
    out += aligned(rows, {false, false});
  }
  return out + sum_formulas(report, styled, all);
}

// What formulas would say of single operations beside their numbers: what they send for.
std::string collectives_text(const Report& report) {
  std::string out;
  for (std::size_t i = 0; i < report.explanation.ops.size(); ++i)
    if (const std::string& collective = report.explanation.ops[i].work.collective; !collective.empty())
      out += fmt::format("{}: {}\n", op_name(report, i), collective);
  return out;
}

// What was left out of formulas and thresholds, and how to see it.
std::string notes(const Report& report, bool all) {
  const Explanation& e = report.explanation;
  std::string out = "a multiply-add counts as 2 FLOPs; bytes: each input read once, each result written once\n";
  out += followers_line(e);
  if (e.fused) {
    const std::string all_of_them = e.ops.size() > 1 ? fmt::format("all {} operations as one; ", e.ops.size()) : "";
    out +=
        fmt::format("fused: {}intermediates stay where they are computed, in f32, and are never stored\n", all_of_them);
  }
  if (!all && e.ops.size() > 1) out += "--all: every formula and threshold; --steps: the working\n";
  return out;
}

std::string explained_text(const Report& report, const Styled& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  if (!is_open(e))
    out += answer_text(report, styled) + styled.table(predicted_rows(report), predicted_right);
  else if (e.ops.size() > 1)
    out += "\n" + answer_text(report, styled);
  out += assumed_text(e);
  if (report.planned) out += plan_text(report);
  if (all || is_open(e) || e.ops.size() == 1)
    out += formulas(report, styled, all);
  else
    out += collectives_text(report) + thresholds_text(report, styled, all);
  if (all) out += kinds_text(e) + memory_text(e);
  return out + sources_text(e, styled, all) + notes(report, all);
}

}  // namespace

Rows predicted_rows(const Report& report) {
  const Explanation& e = report.explanation;
  Rows rows{{"op", "of time", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap", "network", "sent"}};
  for (const std::size_t i : by_share(e)) rows.push_back(predicted_row(e, op_name(report, i), e.ops[i]));
  if (e.ops.size() > 1) rows.push_back(predicted_row(e, "total", e.total));
  if (e.fused) rows.push_back(predicted_row(e, "fused", *e.fused));
  for (auto& row : rows)
    if (!e.network) row.resize(row.size() - 2);
  return rows;
}

std::string render_text(const Report& report, const TextStyle& style) {
  const Styled styled(style);
  const std::string top = head(report, styled);
  if (!report.measured) return top + explained_text(report, styled, style.all);
  std::string lost;
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    lost +=
        fmt::format("{} took {}\n", op_name(report, i), losses_text(report.losses[i].roof_s, report.losses[i].lost));
  return top + measured_text(report, styled) + "\n" + styled.table(predicted_rows(report), predicted_right) + lost +
         sources_text(report.explanation, styled, style.all);
}

std::string_view verdict_name(const ClaimVerdict& verdict) {
  if (!verdict.depends.empty()) return "undecided";
  return verdict.right ? "right" : "wrong";
}

std::string render_text(const ClaimVerdict& verdict) {
  std::string out = fmt::format("{}: {}\n  {}\n", verdict_name(verdict), verdict.claim, verdict.truth);
  if (!verdict.of.empty())
    out += fmt::format("  that is of {0}: write {0}.{1}, another operation or total.{1} to ask for one\n", verdict.of,
                       verdict.claim.substr(0, verdict.claim.find(' ')));
  if (!verdict.depends.empty())
    out += fmt::format("  it depends on {}: give a value with -d {}=N\n", fmt::join(verdict.depends, ", "),
                       verdict.depends.front());
  if (!verdict.slip.empty()) out += "  slip: " + verdict.slip + "\n";
  return out;
}

}  // namespace ridge
