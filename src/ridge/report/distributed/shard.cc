#include "ridge/report/distributed/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/distributed/communication.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

// Returns "X: dcn" for each mesh axis that leaves the first link.
std::string outer_links_text(const MeshPlacement& placement) {
  std::string out;
  for (const auto& [letter, link] : placement.outer_links)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", letter, link);
  return out;
}

template <class Row> bool has_outer_links(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.placement.outer_links.empty(); });
}

constexpr const char* outer_links_header = "slower links";

double words_per_chip(const ShardingReport& a, double words) { return words / static_cast<double>(a.chips); }

Cells shardings_table(const ShardingReport& a) {
  Cells cells{{"", "mesh", "time", "computing", "sending", "words per chip", "memory", "compared with the first"}};
  const bool is_wide = has_outer_links(a.best);
  if (is_wide) cells[0].insert(cells[0].begin() + 2, outer_links_header);
  for (std::size_t i = 0; i < a.best.size(); ++i) {
    const RankedSharding& r = a.best[i];
    cells.push_back({std::to_string(i + 1), r.placement.text, format_with_prefix(r.sharding.total_seconds(), "s"),
                     format_with_prefix(r.sharding.compute_s, "s"), format_with_prefix(r.sharding.network_s, "s"),
                     format_with_prefix(words_per_chip(a, static_cast<double>(r.sharding.words)), ""),
                     format_with_prefix(r.sharding.peak_bytes, "B"), r.slower_because});
    if (is_wide) cells.back().insert(cells.back().begin() + 2, outer_links_text(r.placement));
  }
  return cells;
}

std::vector<bool> right_aligned_columns(const ShardingReport& a) {
  std::vector<bool> out{true, false, true, true, true, true, true, false};
  if (has_outer_links(a.best)) out.insert(out.begin() + 2, false);
  return out;
}

std::string moves_text(const ShardingReport& a, const RankedSharding& r) {
  std::string out;
  for (std::size_t s = 0; s < a.program.statements.size(); ++s) {
    const std::size_t at = a.program.statements[s].result();
    out += fmt::format("  {}: {}", format_layout(a.program.tensors[at], r.sharding.layouts[at]),
                       format_partition(r.sharding.partitions[s]));
    for (const StatementRedistribution& step : r.steps)
      if (step.statement == s)
        out += fmt::format(", {} of {} over {} {}", name(*step.redistribution.collective),
                           a.program.tensors[step.tensor].name, step.redistribution.over,
                           format_with_prefix(step.cost.seconds, "s"));
    out += "\n";
  }
  return out;
}

Json sharding_json(const ShardingReport& a, const RankedSharding& r) {
  Json out{{"mesh", Json::object()}, {"rings", Json::object()}};
  for (const auto& [letter, size] : r.mesh.axes) out["mesh"][std::string(1, letter)] = size;
  for (const auto& [letter, count] : r.placement.rings) out["rings"][std::string(1, letter)] = count;
  for (const auto& [letter, link] : r.placement.outer_links) out["outer_links"][std::string(1, letter)] = link;
  out["time_s"] = r.sharding.total_seconds();
  out["compute_s"] = r.sharding.compute_s;
  out["network_s"] = r.sharding.network_s;
  out["words"] = r.sharding.words;
  out["bytes_a_chip"] = r.sharding.peak_bytes;
  out["reason"] = r.slower_because;
  out["written"] = r.program_text;
  out["statements"] = Json::array();
  for (std::size_t s = 0; s < a.program.statements.size(); ++s) {
    const std::size_t at = a.program.statements[s].result();
    Json one{{"name", a.program.tensors[at].name}, {"shares_out", Json::object()}};
    for (const auto& [dim, letters] : r.sharding.partitions[s]) one["shares_out"][dim] = letters;
    one["moves"] = Json::array();
    for (const StatementRedistribution& step : r.steps)
      if (step.statement == s)
        one["moves"].push_back({{"collective", name(*step.redistribution.collective)},
                                {"tensor", a.program.tensors[step.tensor].name},
                                {"over", step.redistribution.over},
                                {"words", step.cost.words},
                                {"time_s", step.cost.seconds}});
    out["statements"].push_back(std::move(one));
  }
  out["tensors"] = Json::object();
  for (std::size_t t = 0; t < a.program.tensors.size(); ++t)
    out["tensors"][a.program.tensors[t].name] = format_layout(a.program.tensors[t], r.sharding.layouts[t]);
  return out;
}

// "B >= 2550: r*(X - 1)"
std::string threshold_line(const Threshold& t) {
  if (t.relation == Relation::always) return fmt::format("for every {}", t.dim);
  if (t.relation == Relation::never) return fmt::format("for no {}", t.dim);
  std::string out = fmt::format("for {} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
  if (t.value && !t.exact.empty()) out += ": " + t.exact;
  if (t.value_real) out += " = " + format_significant(*t.value_real, 5);
  if (t.approx && !t.assuming.empty())
    out += fmt::format(", {} where {}", format_significant(*t.approx, 5), t.assuming);
  if (!t.condition.empty()) out += " if " + t.condition;
  return out + (t.numerical ? " (solved numerically)" : "");
}

}  // namespace

// "not split: i, u, y; every chip computes them in full, 2.079 ms; `ridge explain --split` splits along D, F"
static std::string undivided_text(const ShardingReport& a) {
  if (a.undivided.empty()) return {};
  std::string out = fmt::format("not split: {}; every chip computes {} in full, {}",
                                truncate_text(fmt::format("{}", fmt::join(a.undivided_results, ", ")), 32),
                                a.undivided.size() == 1 ? "it" : "them", format_with_prefix(a.undivided_s, "s"));
  if (!a.explain_splits.empty())
    out += fmt::format("; `ridge explain --split` splits along {}",
                       truncate_text(fmt::format("{}", fmt::join(a.explain_splits, ", ")), 32));
  return out + "\n";
}

std::string render_text(const ShardingReport& a, const TextStyle& style) {
  std::string out = fmt::format("{} chips of {} ({}); {} mesh{} searched exhaustively\n", group_digits(a.chips),
                                a.machine, a.network, a.meshes, a.meshes == 1 ? "" : "es");
  out += undivided_text(a);
  if (a.best.empty()) {
    out += fmt::format("no sharding fits into {} per chip", format_with_prefix(a.capacity.value_or(0), "B"));
    if (a.unlimited_memory_s)
      out += fmt::format("; the fastest takes {} and needs {}", format_with_prefix(*a.unlimited_memory_s, "s"),
                         format_with_prefix(a.unlimited_peak_bytes, "B"));
    return out + "\n";
  }
  out += text_table(
      shardings_table(a),
      {.right = right_aligned_columns(a), .omit_first = {"words per chip", "computing", "sending", "memory"}}, style);
  out += fmt::format("products need at least {} words per chip if each tensor is stored once and spread evenly\n",
                     format_with_prefix(words_per_chip(a, a.min_words), ""));
  out += "\nthe first: result layout, partitioned dimensions and collectives of each statement\n" +
         moves_text(a, a.best[0]);
  for (const SmallMessages& small : a.small_messages) out += describe_small_messages(small) + "\n";
  for (const Overlap& overlap : a.overlaps) out += describe_overlap(overlap) + "\n";
  return out + "\n" + a.best[0].program_text;
}

std::string render_json(const ShardingReport& a) {
  Json out{{"schema", "ridge.shard/1"}, {"program", a.program.text}, {"machine", a.machine}, {"chips", a.chips}};
  out["dims"] = a.sizes;
  out["meshes_searched"] = a.meshes;
  out["capacity_bytes"] = or_null(a.capacity);
  out["least_words"] = a.min_words;
  out["unlimited_s"] = or_null(a.unlimited_memory_s);
  out["shardings"] = Json::array();
  for (const RankedSharding& r : a.best) out["shardings"].push_back(sharding_json(a, r));
  out["small_messages"] = small_messages_json(a.small_messages);
  out["overlaps"] = overlaps_json(a.overlaps);
  if (!a.undivided.empty()) out["undivided"] = a.undivided;
  return out.dump(2) + "\n";
}

std::string render_text(const MeshSizing& o, const TextStyle& style) {
  std::string out = fmt::format("{} on {}{}\n", o.network, o.machine, o.outer_links);
  if (!o.choices.empty()) {
    Cells cells{{"mesh", "math", "memory", "network", "longest"}};
    const bool is_wide = has_outer_links(o.choices);
    if (is_wide) cells[0].emplace_back(outer_links_header);
    for (const MeshChoice& c : o.choices) {
      cells.push_back({c.placement.text, format_with_prefix(c.math_s, "s"), format_with_prefix(c.memory_s, "s"),
                       format_with_prefix(c.network_s, "s"), format_with_prefix(c.slowest_seconds(), "s")});
      if (is_wide) cells.back().push_back(outer_links_text(c.placement));
    }
    return out + text_table(cells, {{false, true, true, true, true}}, style);
  }
  for (const SolvedInterval& s : o.intervals) {
    if (o.intervals.size() > 1 || s.interval.to > 0)
      out += fmt::format("{}{}: {}, {} per chip\n", &s == o.intervals.data() ? "" : "\n",
                         format_sizes(s.interval, o.open_axes), s.interval.link,
                         format_with_prefix(s.interval.rate, "B/s"));
    out += fmt::format("per device: {} FLOP computed, {} B sent\n", s.flops.to_string(o.symbols),
                       s.bytes_sent.to_string(o.symbols));
    out += fmt::format("r = {} FLOP per byte sent; compute time exceeds network time\n",
                       format_significant(s.roofs.ridge(), 6));
    for (const Threshold& t : s.thresholds) out += "  " + threshold_line(t) + "\n";
  }
  const auto has_step = [](const SolvedInterval& s) { return s.interval.step > 1; };
  if (std::any_of(o.intervals.begin(), o.intervals.end(), has_step))
    out +=
        fmt::format("other sizes use part of a node, pod or leaf: -d {}=12 evaluates one\n", o.open_axes.substr(0, 1));
  return out;
}

// Returns the first interval with more than one size, or null if there is none.
static const SolvedInterval* first_size_range(const MeshSizing& o) {
  for (const SolvedInterval& s : o.intervals)
    if (s.interval.to != s.interval.from) return &s;
  return nullptr;
}

static Json mesh_thresholds_json(const std::vector<Threshold>& all) {
  Json out = Json::array();
  for (const Threshold& t : all) {
    Json one{{"dim", t.dim}, {"relation", name(t.relation)}};
    one["exact"] = or_null(t.exact);
    one["value"] = or_null(t.value);
    one["approx"] = or_null(t.approx);
    one["assuming"] = t.assuming;
    out.push_back(std::move(one));
  }
  return out;
}

std::string render_json(const MeshSizing& o) {
  Json out{{"schema", "ridge.meshes/1"}, {"program", o.program_text}, {"machine", o.machine}, {"axes", o.open_axes}};
  const SolvedInterval* const main = first_size_range(o);
  out["flops"] = main ? Json(main->flops.to_string(o.symbols)) : Json(nullptr);
  out["sent"] = main ? Json(main->bytes_sent.to_string(o.symbols)) : Json(nullptr);
  out["ratio"] = main ? Json(main->roofs.ridge()) : Json(nullptr);
  out["thresholds"] = main ? mesh_thresholds_json(main->thresholds) : Json::array();
  out["stretches"] = Json::array();
  for (const SolvedInterval& s : o.intervals) {
    Json one{{"from", s.interval.from}, {"to", positive_or_null(s.interval.to)}};
    one["step"] = s.interval.step;
    one["link"] = s.interval.link;
    one["bytes_per_s"] = s.interval.rate;
    one["flops"] = s.flops.to_string(o.symbols);
    one["sent"] = s.bytes_sent.to_string(o.symbols);
    one["ratio"] = s.roofs.ridge();
    one["thresholds"] = mesh_thresholds_json(s.thresholds);
    out["stretches"].push_back(std::move(one));
  }
  out["meshes"] = Json::array();
  for (const MeshChoice& c : o.choices) {
    Json one{{"mesh", Json::object()}, {"rings", Json::object()}};
    for (const auto& [letter, size] : c.mesh.axes) one["mesh"][std::string(1, letter)] = size;
    for (const auto& [letter, count] : c.placement.rings) one["rings"][std::string(1, letter)] = count;
    for (const auto& [letter, link] : c.placement.outer_links) one["outer_links"][std::string(1, letter)] = link;
    one["math_s"] = c.math_s;
    one["memory_s"] = c.memory_s;
    one["network_s"] = c.network_s;
    out["meshes"].push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

std::string render_json(const CollectiveTime& c) {
  Json out{
      {"schema", "ridge.collective/1"}, {"collective", pattern_name(c.request.pattern)}, {"bytes", c.request.bytes}};
  out["chips"] = c.request.chips;
  out["time_s"] = c.time_s;
  out["sending_s"] = c.sending_s;
  out["latency_s"] = c.latency_s;
  out["library_s"] = or_null(c.library_s);
  if (c.host_issued_s) out["issued_s"] = *c.host_issued_s;
  if (c.small_messages) out["small_messages"] = small_messages_json({*c.small_messages})[0];
  if (c.faster_mesh) out["faster_mesh"] = {{"sizes", c.faster_mesh->sizes}, {"time_s", c.faster_mesh->time_s}};
  out["latency_bound_below_bytes"] = or_null(c.latency_bound_max_bytes);
  out["overlapped_s"] = c.request.compute_s > 0 ? Json(c.overlapped_s) : Json(nullptr);
  out["chunks"] = c.chunk_count;
  out["levels"] = Json::array();
  for (const LevelTime& level : c.levels)
    out["levels"].push_back({{"link", level.link},
                             {"members", level.members},
                             {"bytes", level.bytes_sent},
                             {"bytes_per_s", level.rate},
                             {"time_s", level.transfer_seconds()}});
  return out.dump(2) + "\n";
}

}  // namespace ridge
