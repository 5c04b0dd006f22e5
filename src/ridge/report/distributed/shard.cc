#include "ridge/report/distributed/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/report/distributed/sending.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

std::string mesh_text(const Mesh& mesh, const std::map<char, std::int64_t>& rings) {
  std::string out;
  for (const auto& [letter, size] : mesh.axes) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", letter, size);
    if (const auto given = rings.find(letter); given != rings.end() && given->second > 1)
      out += fmt::format(" ({} rings)", given->second);
  }
  return out;
}

double words_a_chip(const ShardAnswer& a, double words) { return words / static_cast<double>(a.chips); }

Cells table(const ShardAnswer& a) {
  Cells cells{{"", "mesh", "time", "computing", "sending", "words a chip", "memory", "against the first"}};
  for (std::size_t i = 0; i < a.best.size(); ++i) {
    const RankedSharding& r = a.best[i];
    cells.push_back({std::to_string(i + 1), mesh_text(r.mesh, r.rings), engineering(r.sharding.seconds(), "s"),
                     engineering(r.sharding.compute_s, "s"), engineering(r.sharding.network_s, "s"),
                     engineering(words_a_chip(a, static_cast<double>(r.sharding.words)), ""),
                     engineering(r.sharding.bytes, "B"), r.reason});
  }
  return cells;
}

std::string steps_text(const ShardAnswer& a, const RankedSharding& r) {
  std::string out;
  for (std::size_t s = 0; s < a.program.statements.size(); ++s) {
    const auto at = static_cast<std::size_t>(a.program.statements[s].result());
    out += fmt::format("  {}: {}", text(a.program.tensors[at], r.sharding.kept[at]), text(r.sharding.cuts[s]));
    for (const StatementMove& step : r.steps)
      if (step.statement == s)
        out += fmt::format(", {} of {} over {} {}", name(*step.move.kind),
                           a.program.tensors[static_cast<std::size_t>(step.tensor)].name, step.move.over,
                           engineering(step.cost.seconds, "s"));
    out += "\n";
  }
  return out;
}

Json sharding_json(const ShardAnswer& a, const RankedSharding& r) {
  Json out{{"mesh", Json::object()}, {"rings", Json::object()}};
  for (const auto& [letter, size] : r.mesh.axes) out["mesh"][std::string(1, letter)] = size;
  for (const auto& [letter, count] : r.rings) out["rings"][std::string(1, letter)] = count;
  out["time_s"] = r.sharding.seconds();
  out["compute_s"] = r.sharding.compute_s;
  out["network_s"] = r.sharding.network_s;
  out["words"] = r.sharding.words;
  out["bytes_a_chip"] = r.sharding.bytes;
  out["reason"] = r.reason;
  out["written"] = r.written;
  out["statements"] = Json::array();
  for (std::size_t s = 0; s < a.program.statements.size(); ++s) {
    const auto at = static_cast<std::size_t>(a.program.statements[s].result());
    Json one{{"name", a.program.tensors[at].name}, {"shares_out", Json::object()}};
    for (const auto& [dim, letters] : r.sharding.cuts[s]) one["shares_out"][dim] = letters;
    one["moves"] = Json::array();
    for (const StatementMove& step : r.steps)
      if (step.statement == s)
        one["moves"].push_back({{"collective", name(*step.move.kind)},
                                {"tensor", a.program.tensors[static_cast<std::size_t>(step.tensor)].name},
                                {"over", step.move.over},
                                {"words", step.cost.words},
                                {"time_s", step.cost.seconds}});
    out["statements"].push_back(std::move(one));
  }
  out["tensors"] = Json::object();
  for (std::size_t t = 0; t < a.program.tensors.size(); ++t)
    out["tensors"][a.program.tensors[t].name] = text(a.program.tensors[t], r.sharding.kept[t]);
  return out;
}

// "B >= 2550: r*(X - 1)"
std::string line(const Threshold& t) {
  if (t.relation == Relation::always) return fmt::format("for every {}", t.dim);
  if (t.relation == Relation::never) return fmt::format("for no {}", t.dim);
  std::string out = fmt::format("for {} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
  if (t.value && !t.exact.empty()) out += ": " + t.exact;
  if (t.value_real) out += " = " + significant(*t.value_real, 5);
  if (t.approx && !t.assuming.empty()) out += fmt::format(", {} where {}", significant(*t.approx, 5), t.assuming);
  if (!t.condition.empty()) out += " if " + t.condition;
  return out + (t.numerical ? " (solved numerically)" : "");
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

std::string render_text(const ShardAnswer& a) {
  std::string out = fmt::format("{} chips of {} ({}); {} mesh{} searched exactly\n", grouped(a.chips), a.machine,
                                a.network, a.meshes, a.meshes == 1 ? "" : "es");
  if (a.best.empty()) {
    out += fmt::format("no sharding fits into {} a chip", engineering(a.capacity.value_or(0), "B"));
    if (a.unlimited_s)
      out += fmt::format("; the fastest takes {} and needs {}", engineering(*a.unlimited_s, "s"),
                         engineering(a.unlimited_bytes, "B"));
    return out + "\n";
  }
  out += text_table(table(a), {true, false, true, true, true, true, true, false}, false);
  out += fmt::format("products move at least {} words a chip where each tensor lies once, evenly spread\n",
                     engineering(words_a_chip(a, a.bound_words), ""));
  out += "\nthe first: what its devices share out, and what moves\n" + steps_text(a, a.best[0]);
  for (const SmallMessages& small : a.small) out += text(small) + "\n";
  for (const Overlap& overlap : a.overlaps) out += text(overlap) + "\n";
  return out + "\n" + a.best[0].written;
}

std::string render_json(const ShardAnswer& a) {
  Json out{{"schema", "ridge.shard/1"}, {"program", a.program.text}, {"machine", a.machine}, {"chips", a.chips}};
  out["dims"] = a.sizes;
  out["meshes_searched"] = a.meshes;
  out["capacity_bytes"] = or_null(a.capacity);
  out["least_words"] = a.bound_words;
  out["unlimited_s"] = or_null(a.unlimited_s);
  out["shardings"] = Json::array();
  for (const RankedSharding& r : a.best) out["shardings"].push_back(sharding_json(a, r));
  out["small_messages"] = small_messages_json(a.small);
  out["overlaps"] = overlaps_json(a.overlaps);
  return out.dump(2) + "\n";
}

std::string render_text(const OpenMesh& o) {
  std::string out = fmt::format("{} on {}\n", o.network, o.machine);
  if (!o.choices.empty()) {
    Cells cells{{"mesh", "math", "memory", "network", "the slowest"}};
    for (const MeshChoice& c : o.choices)
      cells.push_back({mesh_text(c.mesh, c.rings), engineering(c.math_s, "s"), engineering(c.memory_s, "s"),
                       engineering(c.network_s, "s"), engineering(c.seconds(), "s")});
    return out + text_table(cells, {false, true, true, true, true}, false);
  }
  for (const OpenStretch& s : o.stretches) {
    if (o.stretches.size() > 1)
      out += fmt::format("{}{}: {}, {} a chip\n", &s == o.stretches.data() ? "" : "\n", sizes_text(s.stretch, o.axes),
                         s.stretch.link, engineering(s.stretch.rate, "B/s"));
    out += fmt::format("computing to sending, of a device: {} FLOP to {} B\n", s.flops.text(o.order),
                       s.sent.text(o.order));
    out += fmt::format("r = {} FLOP a byte sent; more compute than network time\n", significant(s.roofs.ridge(), 6));
    for (const Threshold& t : s.thresholds) out += "  " + line(t) + "\n";
  }
  const auto steps = [](const OpenStretch& s) { return s.stretch.step > 1; };
  if (std::any_of(o.stretches.begin(), o.stretches.end(), steps))
    out += fmt::format("other sizes have parts of a node, pod or leaf: -d {}=12 counts them\n", o.axes.substr(0, 1));
  return out;
}

// The first that is more than one size; none: there are no stretches.
static const OpenStretch* main_stretch(const OpenMesh& o) {
  for (const OpenStretch& s : o.stretches)
    if (s.stretch.to != s.stretch.from) return &s;
  return nullptr;
}

static Json thresholds_json(const std::vector<Threshold>& all) {
  Json out = Json::array();
  for (const Threshold& t : all) {
    Json one{{"dim", t.dim}, {"relation", name(t.relation)}};
    one["exact"] = t.exact.empty() ? Json(nullptr) : Json(t.exact);
    one["value"] = t.value ? Json(*t.value) : Json(nullptr);
    one["approx"] = or_null(t.approx);
    one["assuming"] = t.assuming;
    out.push_back(std::move(one));
  }
  return out;
}

std::string render_json(const OpenMesh& o) {
  Json out{{"schema", "ridge.meshes/1"}, {"program", o.program_text}, {"machine", o.machine}, {"axes", o.axes}};
  const OpenStretch* const main = main_stretch(o);
  out["flops"] = main ? Json(main->flops.text(o.order)) : Json(nullptr);
  out["sent"] = main ? Json(main->sent.text(o.order)) : Json(nullptr);
  out["ratio"] = main ? Json(main->roofs.ridge()) : Json(nullptr);
  out["thresholds"] = main ? thresholds_json(main->thresholds) : Json::array();
  out["stretches"] = Json::array();
  for (const OpenStretch& s : o.stretches) {
    Json one{{"from", s.stretch.from}, {"to", s.stretch.to > 0 ? Json(s.stretch.to) : Json(nullptr)}};
    one["step"] = s.stretch.step;
    one["link"] = s.stretch.link;
    one["bytes_per_s"] = s.stretch.rate;
    one["flops"] = s.flops.text(o.order);
    one["sent"] = s.sent.text(o.order);
    one["ratio"] = s.roofs.ridge();
    one["thresholds"] = thresholds_json(s.thresholds);
    out["stretches"].push_back(std::move(one));
  }
  out["meshes"] = Json::array();
  for (const MeshChoice& c : o.choices) {
    Json one{{"mesh", Json::object()}, {"rings", Json::object()}};
    for (const auto& [letter, size] : c.mesh.axes) one["mesh"][std::string(1, letter)] = size;
    for (const auto& [letter, count] : c.rings) one["rings"][std::string(1, letter)] = count;
    one["math_s"] = c.math_s;
    one["memory_s"] = c.memory_s;
    one["network_s"] = c.network_s;
    out["meshes"].push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

std::string render_json(const CollectiveTime& c) {
  Json out{{"schema", "ridge.collective/1"}, {"collective", name(c.asked.pattern)}, {"bytes", c.asked.bytes}};
  out["chips"] = c.asked.chips;
  out["time_s"] = c.time_s();
  out["sending_s"] = c.sending_s;
  out["latency_s"] = c.latency_s;
  out["library_s"] = or_null(c.library_s);
  if (c.issued_s) out["issued_s"] = *c.issued_s;
  if (c.small) out["small_messages"] = small_messages_json({*c.small})[0];
  out["latency_bound_below_bytes"] = or_null(c.latency_bound_below);
  out["overlapped_s"] = c.asked.compute_s > 0 ? Json(c.overlapped_s) : Json(nullptr);
  out["chunks"] = c.chunks;
  out["levels"] = Json::array();
  for (const LevelTime& level : c.levels)
    out["levels"].push_back({{"link", level.link},
                             {"members", level.members},
                             {"bytes", level.bytes},
                             {"bytes_per_s", level.rate},
                             {"time_s", level.seconds()}});
  return out.dump(2) + "\n";
}

}  // namespace ridge
