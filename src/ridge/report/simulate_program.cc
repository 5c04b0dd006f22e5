// A program on a dataflow chip: which units each statement got, who sets the pace, what calls cost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/base/version.h"
#include "ridge/report/simulate.h"
#include "ridge/report/timeline.h"

namespace ridge {

std::string render_text(const MappedProgram& m) {
  const Placement& p = m.placement;
  std::string out = fmt::format("{}  on {}\n", m.program, m.fabric);
  out += fmt::format("{} = {} in {} tile{} of {}; weights {}, {}\n\n", m.rows, m.extent, m.tiles,
                     m.tiles == 1 ? "" : "s", m.tile, engineering(static_cast<double>(m.weight_bytes), "B"),
                     m.weights_stay ? fmt::format("kept in {} PMUs", m.weight_pmus) : "read again for every tile");
  std::vector<std::vector<std::string>> rows{{"stage", "PCUs", "a tile", "even share"}};
  for (const PlacedStage& s : p.stages)
    rows.push_back({s.name, std::to_string(s.pcus), engineering(s.seconds, "s"), engineering(s.even_seconds, "s")});
  out += aligned(rows, {false, true, true, true});
  out += fmt::format("\n{} PCUs and {} PMUs of buffers ({}){}; {}\n", p.pcus, p.pmus,
                     engineering(static_cast<double>(p.buffer_bytes), "B"),
                     m.weights_stay && m.weight_pmus > 0 ? fmt::format(" beside {} of weights", m.weight_pmus) : "",
                     p.fits ? "fits" : "does not fit: " + p.why_not);
  out += fmt::format("a tile every {}, set by {}; {} times as fast as an even share\n\n",
                     engineering(p.interval_seconds, "s"), p.bottleneck, significant(p.gain(), 3));
  rows = {{fmt::format("{} layer{}", m.layers, m.layers == 1 ? "" : "s"), "calls", "bytes", "calls take", "time"}};
  for (const CallingTime& c : m.calling)
    rows.push_back({std::string(name(c.calling)), std::to_string(c.calls), engineering(c.bytes, "B"),
                    engineering(c.sync_seconds, "s"), engineering(c.seconds, "s")});
  out += aligned(rows, {false, true, true, true, true});
  return out + "\nno time per call is published: --sync gives one; clock and rates: docs/simulate.md\n";
}

std::string render_json(const MappedProgram& m) {
  using Json = nlohmann::ordered_json;
  const Placement& p = m.placement;
  Json out{{"schema", "ridge.report/1"}, {"verb", "simulate"}, {"program", m.program}, {"machine", m.fabric}};
  out["rows"] = {{"dim", m.rows}, {"extent", m.extent}, {"tile", m.tile}, {"tiles", m.tiles}};
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
  out["layers"] = m.layers;
  out["calling"] = Json::array();
  for (const CallingTime& c : m.calling)
    out["calling"].push_back({{"name", name(c.calling)},
                              {"calls", c.calls},
                              {"bytes", c.bytes},
                              {"sync_s", c.sync_seconds},
                              {"time_s", c.seconds}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_svg(const MappedProgram& m) {
  return timeline_svg(m.run.timeline,
                      fmt::format("{} on {}: {} tiles of {} rows", m.program, m.fabric, m.tiles, m.tile));
}

std::string render_tpu_v1_json(std::span<const TpuV1Row> rows) {
  using Json = nlohmann::ordered_json;
  Json out{{"schema", "ridge.report/1"}, {"verb", "simulate weights"}, {"machine", "tpu_v1"}, {"rows", Json::array()}};
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
