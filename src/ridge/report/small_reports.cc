#include "ridge/report/small_reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"

namespace ridge {
namespace {

// Removes the factor r from a threshold's formula; it is 1 if statements are compared with each other.
std::string without_ratio(std::string formula, const std::vector<std::string>& order) {
  std::string r = "r";
  while (contains(order, r)) r = r == "r" ? "ridge" : r + "_";
  r += "*";
  for (std::size_t at = formula.find(r); at != std::string::npos; at = formula.find(r, at)) {
    const bool is_factor = at == 0 || std::string_view("(*/ -+").find(formula[at - 1]) != std::string_view::npos;
    if (is_factor)
      formula.erase(at, r.size());
    else
      at += r.size();
  }
  return formula;
}

// Returns "for T >= 16385: (2*D + ...)".
std::string threshold_line(const Threshold& t, const std::vector<std::string>& order) {
  if (t.relation == Relation::always) return fmt::format("for every {}", t.dim);
  if (t.relation == Relation::never) return fmt::format("for no {}", t.dim);
  std::string out = fmt::format("for {} {} {}", t.dim, name(t.relation),
                                t.value ? std::to_string(*t.value) : without_ratio(t.exact, order));
  if (t.value && !t.exact.empty()) out += ": " + without_ratio(t.exact, order);
  if (!t.condition.empty()) out += " if " + without_ratio(t.condition, order);
  return out + (t.numerical ? " (solved numerically)" : "");
}

Json crossover_thresholds_json(const std::vector<Threshold>& all) {
  Json out = Json::array();
  for (const Threshold& t : all) {
    Json one{{"dim", t.dim}, {"relation", name(t.relation)}};
    one["value"] = or_null(t.value);
    one["exact"] = or_null(t.exact);
    one["numerical"] = t.numerical;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Cells tile_waves_table(const std::vector<TileWaves>& waves) {
  Cells cells{{"op", "result", "tiles", "cores", "waves", "slots used", "outside the matrix"}};
  for (const TileWaves& w : waves)
    cells.push_back({w.name, fmt::format("{}{} x {}", w.batch > 1 ? fmt::format("{} x ", w.batch) : "", w.m, w.n),
                     std::to_string(w.tiles), std::to_string(w.cores), std::to_string(w.waves),
                     fmt::format("{:.1f} %", 100 * w.utilization), fmt::format("{:.1f} %", 100 * w.padding_fraction)});
  return cells;
}

std::string render_tile_waves_json(const std::vector<TileWaves>& waves) {
  Json out{{"schema", "ridge.tiles/1"}, {"ops", Json::array()}};
  for (const TileWaves& w : waves)
    out["ops"].push_back({{"name", w.name},
                          {"tile", {{"m", w.tile_m}, {"n", w.tile_n}}},
                          {"m", w.m},
                          {"n", w.n},
                          {"batch", w.batch},
                          {"tiles", w.tiles},
                          {"cores", w.cores},
                          {"waves", w.waves},
                          {"places_used", w.utilization},
                          {"beyond_edges", w.padding_fraction}});
  return out.dump(2) + "\n";
}

Cells lines_table(const std::vector<OperandLines>& operands) {
  Cells cells{{"tensor", "rows x columns", "leading", "unit", "first tile", "min", "crossing", "moved / used", "pad to",
               "first tile", "moved / used", "added"}};
  for (const OperandLines& o : operands)
    cells.push_back({o.tensor, fmt::format("{} x {}", o.rows, o.columns), std::to_string(o.leading),
                     fmt::format("{} of {} B", o.unit, o.unit_bytes), std::to_string(o.tile.lines),
                     std::to_string(o.tile.min_lines), std::to_string(o.tile.rows_with_extra_line),
                     format_significant(o.traffic), std::to_string(o.padded_stride),
                     std::to_string(o.padded_tile.lines), format_significant(o.padded_traffic),
                     format_with_prefix(static_cast<double>(o.padding_bytes), "B")});
  return cells;
}

std::string render_lines_json(const std::vector<OperandLines>& operands) {
  Json out{{"schema", "ridge.lines/1"}, {"operands", Json::array()}};
  for (const OperandLines& o : operands)
    out["operands"].push_back({{"tensor", o.tensor},
                               {"rows", o.rows},
                               {"columns", o.columns},
                               {"leading", o.leading},
                               {"unit", o.unit},
                               {"unit_bytes", o.unit_bytes},
                               {"tile_lines", o.tile.lines},
                               {"tile_lines_least", o.tile.min_lines},
                               {"straddling_rows", o.tile.rows_with_extra_line},
                               {"bytes_moved_over_used", o.traffic},
                               {"padded_leading", o.padded_stride},
                               {"padded_tile_lines", o.padded_tile.lines},
                               {"padded_bytes_moved_over_used", o.padded_traffic},
                               {"padding_bytes", o.padding_bytes}});
  return out.dump(2) + "\n";
}

Cells chain_table(const std::vector<PointwiseChain>& chains) {
  Cells cells{{"", "fused", "one kernel per application"}};
  for (const PointwiseChain& c : chains) {
    cells.push_back({c.text, "", ""});
    std::string costs;
    for (const ChainFunction& f : c.functions)
      costs += fmt::format("{}{} x {} at {} ({})", costs.empty() ? "" : ", ", f.applications, f.name, f.cost, f.source);
    cells.push_back({"  kernels", "1", std::to_string(c.kernels)});
    cells.push_back({"  bytes per element", format_significant(c.fused_bytes), format_significant(c.unfused_bytes)});
    cells.push_back({"  FLOPs per element", format_significant(c.flops), costs});
    cells.push_back({"  break-even FLOPs per element", format_significant(c.break_even_flops),
                     c.compute_bound ? "=> compute-bound" : "=> memory-bound"});
    if (!c.stored.empty())
      cells.push_back({"  stored on the way", fmt::format("{}", fmt::join(c.stored, ", ")), "outputs: dtype declared"});
    if (c.break_even_repeats)
      cells.push_back({"  compute-bound from repeats", std::to_string(*c.break_even_repeats), ""});
    if (c.launch_s > 0)
      cells.push_back({fmt::format("  launch ({}) dominates below elements", format_with_prefix(c.launch_s, "s")),
                       format_significant(c.fused_elements), format_significant(c.unfused_elements)});
  }
  return cells;
}

std::string render_chains_json(const std::vector<PointwiseChain>& chains) {
  Json out{{"schema", "ridge.chains/1"}, {"chains", Json::array()}};
  for (const PointwiseChain& c : chains) {
    Json one{{"name", c.name},
             {"text", c.text},
             {"flops_per_element", c.flops},
             {"kernels_unfused", c.kernels},
             {"bytes_per_element_fused", c.fused_bytes},
             {"bytes_per_element_unfused", c.unfused_bytes},
             {"break_even_flops_per_element", c.break_even_flops},
             {"compute_bound", c.compute_bound}};
    one["break_even_repeats"] = or_null(c.break_even_repeats);
    one["launch_s"] = c.launch_s;
    one["launch_dominates_below_elements_fused"] = c.fused_elements;
    one["launch_dominates_below_elements_unfused"] = c.unfused_elements;
    if (!c.stored.empty()) one["stored"] = c.stored;
    one["functions"] = Json::array();
    for (const ChainFunction& f : c.functions)
      one["functions"].push_back(
          {{"name", f.name}, {"applications", f.applications}, {"flops_each", f.cost}, {"source", f.source}});
    out["chains"].push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

std::string render_text(const StatementComparison& b) {
  const std::string first = fmt::format("{}", fmt::join(b.first, " + ")),
                    second = fmt::format("{}", fmt::join(b.second, " + "));
  std::string out = fmt::format("{}  {} FLOP\n{}  {} FLOP\n", first, b.first_flops.to_string(b.order), second,
                                b.second_flops.to_string(b.order));
  out += fmt::format("{} needs at least as many FLOPs as {}\n", first, second);
  for (const Threshold& t : b.flops_thresholds) out += "  " + threshold_line(t, b.order) + "\n";
  if (!b.time_thresholds.empty())
    out += fmt::format("{} takes at least as long as {}, each statement at its lower bound\n", first, second);
  for (const Threshold& t : b.time_thresholds) out += "  " + threshold_line(t, b.order) + "\n";
  return out;
}

std::string render_json(const StatementComparison& b) {
  Json out{{"schema", "ridge.between/1"}, {"first", b.first}, {"second", b.second}};
  out["first_flops"] = b.first_flops.to_string(b.order);
  out["second_flops"] = b.second_flops.to_string(b.order);
  out["flops"] = crossover_thresholds_json(b.flops_thresholds);
  out["time"] = crossover_thresholds_json(b.time_thresholds);
  return out.dump(2) + "\n";
}

std::string render_json(const PointToPointTransfer& p) {
  Json out{{"schema", "ridge.passage/1"}, {"link", p.link}, {"bytes", p.bytes}, {"hops", p.hops}, {"links", p.links}};
  out["first_byte_s"] = positive_or_null(p.first_byte_s);
  out["time_s"] = p.last_byte_s;
  return out.dump(2) + "\n";
}

}  // namespace ridge
