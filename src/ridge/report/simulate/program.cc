// A program on a dataflow chip: which units each statement got, who sets the pace, what calls cost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/base/version.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/timeline.h"

namespace ridge {

namespace {

using Json = nlohmann::ordered_json;

std::string tiles_text(const MappedPass& p) {
  const char* const plural = p.tiles == 1 ? "" : "s";
  std::string out = p.rows.empty()
                        ? "nothing streams: one tile"
                        : fmt::format("{} = {} in {} tile{} of {}", p.rows, p.extent, p.tiles, plural, p.tile);
  if (!p.inner.empty())
    out += fmt::format(", within each {} tile{} of {} along {}", p.inner_tiles, p.inner_tiles == 1 ? "" : "s",
                       p.inner_tile, p.inner);
  if (p.weight_bytes > 0) {
    std::string fate = p.tiles == 1 ? "read as they are used" : "read again for every tile";
    if (p.weights_stay) fate = fmt::format("kept in {} PMUs", p.weight_pmus);
    out += fmt::format("; weights {}, {}", engineering(static_cast<double>(p.weight_bytes), "B"), fate);
  }
  if (p.inner_bytes > 0) out += fmt::format("; {} read within", engineering(static_cast<double>(p.inner_bytes), "B"));
  return out + "\n\n";
}

std::string pass_text(const MappedPass& m) {
  const Placement& p = m.placement;
  std::string out = tiles_text(m);
  std::vector<std::vector<std::string>> rows{{"stage", "PCUs", "a tile", "even share"}};
  for (const PlacedStage& s : p.stages)
    if (s.seconds > 0)
      rows.push_back({s.name, std::to_string(s.pcus), engineering(s.seconds, "s"), engineering(s.even_seconds, "s")});
  out += aligned(rows, {false, true, true, true});
  out += fmt::format(
      "\n{} PCUs and {} PMUs of buffers ({}){}; {}\n", p.pcus, p.pmus,
      engineering(static_cast<double>(p.buffer_bytes), "B"),
      m.weights_stay && m.weight_pmus > 0 ? fmt::format(" beside {} of weights and sums", m.weight_pmus) : "",
      p.fits ? "fits" : "does not fit: " + p.why_not);
  out += fmt::format("a tile every {}, set by {}; {} times as fast as an even share\n",
                     engineering(p.interval_seconds, "s"), p.bottleneck, significant(p.gain(), 3));
  const double pipe = static_cast<double>(m.run.cycles), in_turn = static_cast<double>(m.sequential);
  return out + fmt::format("on the clock {}; its stages one after the other {}, {} times as long\n\n",
                           engineering(pipe * 1e-9, "s"), engineering(in_turn * 1e-9, "s"),
                           significant(in_turn / std::max(1.0, pipe), 3));
}

Json pass_json(const MappedPass& m) {
  const Placement& p = m.placement;
  Json out;
  out["rows"] = {{"dim", m.rows.empty() ? Json(nullptr) : Json(m.rows)},
                 {"extent", m.extent},
                 {"tile", m.tile},
                 {"tiles", m.tiles}};
  out["inner"] =
      m.inner.empty() ? Json(nullptr) : Json{{"dim", m.inner}, {"tile", m.inner_tile}, {"tiles", m.inner_tiles}};
  out["weights"] = {{"bytes", m.weight_bytes}, {"pmus", m.weight_pmus}, {"stay", m.weights_stay}};
  out["stages"] = Json::array();
  for (const PlacedStage& s : p.stages)
    out["stages"].push_back(
        {{"name", s.name}, {"pcus", s.pcus}, {"tile_s", s.seconds}, {"even_share_tile_s", s.even_seconds}});
  out["placement"] = {{"pcus", p.pcus},
                      {"pmus", p.pmus},
                      {"buffer_bytes", p.buffer_bytes},
                      {"fits", p.fits},
                      {"why_not", p.fits ? Json(nullptr) : Json(p.why_not)},
                      {"bottleneck", p.bottleneck},
                      {"tile_interval_s", p.interval_seconds},
                      {"gain_over_even_share", p.gain()}};
  out["clock_s"] = static_cast<double>(m.run.cycles) * 1e-9;
  out["sequential_s"] = static_cast<double>(m.sequential) * 1e-9;
  out["bytes"] = m.bytes();
  return out;
}

}  // namespace

std::string render_text(const MappedProgram& m) {
  std::string out = fmt::format("{}  on {}\n", m.program, m.fabric);
  for (std::size_t i = 0; i < m.passes.size(); ++i) {
    if (m.passes.size() > 1) out += fmt::format("pass {} of {}: ", i + 1, m.passes.size());
    out += pass_text(m.passes[i]);
  }
  out += calling_text(m.calling, fmt::format("{} layer{}", m.layers, m.layers == 1 ? "" : "s"));
  if (m.passes.size() > 1) out += "\na layer of several passes is not looped: the chip is set up anew for each\n";
  return out + "\nno time per call is published: --sync gives one; clock and rates: docs/simulate.md\n";
}

std::string render_json(const MappedProgram& m) {
  Json out{{"schema", "ridge.simulate/1"}, {"verb", "simulate"},     {"program", m.program},
           {"machine", m.fabric},          {"schedule", m.schedule}, {"layers", m.layers}};
  out["passes"] = Json::array();
  for (const MappedPass& pass : m.passes) out["passes"].push_back(pass_json(pass));
  out["calling"] = Json::array();
  for (const CallingReport& r : m.calling)
    for (const CallingCost& c : r.costs)
      out["calling"].push_back({{"name", name(c.calling)},
                                {"calls", c.calls},
                                {"bytes", c.bytes},
                                {"sync_s", c.sync_seconds},
                                {"time_s", c.possible ? Json(c.seconds) : Json(nullptr)},
                                {"bandwidth_fraction", c.possible ? Json(c.bandwidth_fraction) : Json(nullptr)}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Timeline timeline_of(const MappedProgram& m) {
  Timeline all{1e9, {}, {}};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < m.passes.size(); ++i) {
    const Timeline& one = m.passes[i].run.timeline;
    const auto first = static_cast<std::int32_t>(all.lanes.size());
    const std::string prefix = m.passes.size() > 1 ? fmt::format("{}: ", i + 1) : "";
    for (const std::string& lane : one.lanes) all.add_lane(prefix + lane);
    for (const Event& e : one.events) all.add(first + e.lane, e.phase, begin + e.begin, begin + e.end, e.step);
    begin += m.passes[i].run.cycles;
  }
  return all;
}

std::string title_of(const MappedProgram& m) {
  const MappedPass& last = m.passes.back();
  return fmt::format("{} on {}: {} tile{} of {} rows", m.program, m.fabric, last.tiles, last.tiles == 1 ? "" : "s",
                     last.tile);
}

std::string render_svg(const MappedProgram& m) {
  if (m.calling.size() > 1)
    return calling_svg(m.calling,
                       fmt::format("{} on {}, {} layer{}", m.program, m.fabric, m.layers, m.layers == 1 ? "" : "s"),
                       "kernel by kernel, fused, and all layers looped in one call; no time per call is published");
  const Placement& p = m.passes.back().placement;
  return filling_svg(timeline_of(m), title_of(m),
                     fmt::format("a tile every {}, set by {}", engineering(p.interval_seconds, "s"), p.bottleneck));
}

std::string render_tpu_v1_json(std::span<const TpuV1Row> rows) {
  Json out{
      {"schema", "ridge.simulate/1"}, {"verb", "simulate weights"}, {"machine", "tpu_v1"}, {"rows", Json::array()}};
  for (const TpuV1Row& row : rows)
    out["rows"].push_back({{"name", row.name},
                           {"batch", row.batch},
                           {"modelled_active", row.modelled ? Json(*row.modelled) : Json(nullptr)},
                           {"measured_active", row.measured_active},
                           {"why", row.why.empty() ? Json(nullptr) : Json(row.why)}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2) + "\n";
}

}  // namespace ridge
