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
