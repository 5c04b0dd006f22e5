#include "ridge/report/questions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

// A threshold's formula without the factor r, which is 1 where statements are held against each other.
std::string without_ratio(std::string formula, const std::vector<std::string>& order) {
  std::string r = "r";
  while (std::find(order.begin(), order.end(), r) != order.end()) r = r == "r" ? "ridge" : r + "_";
  r += "*";
  for (std::size_t at = formula.find(r); at != std::string::npos; at = formula.find(r, at)) {
    const bool whole = at == 0 || std::string_view("(*/ -+").find(formula[at - 1]) != std::string_view::npos;
    if (whole)
      formula.erase(at, r.size());
    else
      at += r.size();
  }
  return formula;
}

// "T >= 16385: (2*D + ...) = 16384.5"
std::string line(const Threshold& t, const std::vector<std::string>& order) {
  if (t.relation == Relation::always) return fmt::format("for every {}", t.dim);
  if (t.relation == Relation::never) return fmt::format("for no {}", t.dim);
  std::string out = fmt::format("for {} {} {}", t.dim, name(t.relation),
                                t.value ? std::to_string(*t.value) : without_ratio(t.exact, order));
  if (t.value && !t.exact.empty()) out += ": " + without_ratio(t.exact, order);
  if (!t.condition.empty()) out += " if " + without_ratio(t.condition, order);
  return out + (t.numerical ? " (solved numerically)" : "");
}

Json thresholds_json(const std::vector<Threshold>& all) {
  Json out = Json::array();
  for (const Threshold& t : all) {
    Json one{{"dim", t.dim}, {"relation", name(t.relation)}};
    one["value"] = t.value ? Json(*t.value) : Json(nullptr);
    one["exact"] = t.exact.empty() ? Json(nullptr) : Json(t.exact);
    one["numerical"] = t.numerical;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Cells tile_waves_table(const std::vector<TileWaves>& waves) {
  Cells cells{{"op", "result", "tiles", "cores", "waves", "places used", "beyond edges"}};
  for (const TileWaves& w : waves)
    cells.push_back({w.name, fmt::format("{}{} x {}", w.batch > 1 ? fmt::format("{} x ", w.batch) : "", w.m, w.n),
                     std::to_string(w.tiles), std::to_string(w.cores), std::to_string(w.waves),
                     fmt::format("{:.1f} %", 100 * w.used), fmt::format("{:.1f} %", 100 * w.beyond_edges)});
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
                          {"places_used", w.used},
                          {"beyond_edges", w.beyond_edges}});
  return out.dump(2) + "\n";
}

std::string render_text(const Between& b) {
  const std::string first = fmt::format("{}", fmt::join(b.first, " + ")),
                    second = fmt::format("{}", fmt::join(b.second, " + "));
  std::string out = fmt::format("{}  {} FLOP\n{}  {} FLOP\n", first, b.first_flops.text(b.order), second,
                                b.second_flops.text(b.order));
  out += fmt::format("{} computes at least as much as {}\n", first, second);
  for (const Threshold& t : b.flops) out += "  " + line(t, b.order) + "\n";
  if (!b.time.empty())
    out += fmt::format("{} takes at least as long as {}, each statement at its lower bound\n", first, second);
  for (const Threshold& t : b.time) out += "  " + line(t, b.order) + "\n";
  return out;
}

std::string render_json(const Between& b) {
  Json out{{"schema", "ridge.between/1"}, {"first", b.first}, {"second", b.second}};
  out["first_flops"] = b.first_flops.text(b.order);
  out["second_flops"] = b.second_flops.text(b.order);
  out["flops"] = thresholds_json(b.flops);
  out["time"] = thresholds_json(b.time);
  return out.dump(2) + "\n";
}

std::string render_json(const Passage& p) {
  Json out{{"schema", "ridge.passage/1"}, {"link", p.link}, {"bytes", p.bytes}, {"hops", p.hops}, {"links", p.links}};
  out["first_byte_s"] = p.first_s > 0 ? Json(p.first_s) : Json(nullptr);
  out["time_s"] = p.all_s;
  return out.dump(2) + "\n";
}

}  // namespace ridge
