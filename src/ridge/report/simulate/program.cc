// Report of a program on a dataflow chip: units of each statement, bottleneck, and cost of calls.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/table.h"
#include "ridge/report/timeline.h"

namespace ridge {

namespace {

std::string tiles_text(const MappedPass& p) {
  const char* const plural = p.tiles == 1 ? "" : "s";
  std::string out = p.streamed_dim.empty()
                        ? "no streaming: one tile"
                        : fmt::format("{} = {} in {} tile{} of {}", p.streamed_dim, p.extent, p.tiles, plural, p.tile);
  if (!p.inner_dim.empty())
    out += fmt::format(", within each {} tile{} of {} along {}", p.inner_tiles, p.inner_tiles == 1 ? "" : "s",
                       p.inner_tile, p.inner_dim);
  if (p.weight_bytes > 0) {
    std::string residency = p.tiles == 1 ? "read as they are used" : "read again for every tile";
    if (p.weights_resident) residency = fmt::format("kept in {} PMUs", p.weight_pmus);
    out += fmt::format("; weights {}, {}", format_with_prefix(static_cast<double>(p.weight_bytes), "B"), residency);
  }
  if (p.inner_bytes > 0)
    out += fmt::format("; {} read in the inner loop", format_with_prefix(static_cast<double>(p.inner_bytes), "B"));
  return out + "\n\n";
}

std::string pass_text(const MappedPass& m, const TextStyle& style) {
  const Placement& p = m.placement;
  std::string out = tiles_text(m);
  std::vector<std::vector<std::string>> rows{{"stage", "PCUs", "per tile", "even split"}};
  for (const PlacedStage& s : p.stages)
    if (s.seconds > 0)
      rows.push_back({s.name, std::to_string(s.pcus), format_with_prefix(s.seconds, "s"),
                      format_with_prefix(s.even_seconds, "s")});
  out += text_table(rows, {{false, true, true, true}}, style);
  out += fmt::format(
      "\n{} PCUs and {} PMUs of buffers ({}){}; {}\n", p.pcus, p.pmus,
      format_with_prefix(static_cast<double>(p.buffer_bytes), "B"),
      m.weights_resident && m.weight_pmus > 0 ? fmt::format(" and {} for weights and sums", m.weight_pmus) : "",
      p.fits ? "fits" : "does not fit: " + p.why_not);
  out += fmt::format("one tile every {}, limited by {}; {} times as fast as an even split\n",
                     format_with_prefix(p.interval_seconds, "s"), p.bottleneck,
                     format_significant(p.speedup_over_even(), 3));
  const double pipe = static_cast<double>(m.run.cycles), sequential = static_cast<double>(m.sequential_ns);
  return out + fmt::format("simulated {}; stages in sequence {}, {} times as long\n\n",
                           format_with_prefix(pipe * 1e-9, "s"), format_with_prefix(sequential * 1e-9, "s"),
                           format_significant(sequential / std::max(1.0, pipe), 3));
}

bool is_fastest(const CallModeReport& report, const CallModeCost& cost) {
  return cost.is_possible && std::ranges::all_of(report.costs, [&](const CallModeCost& other) {
           return !other.is_possible || other.seconds > cost.seconds ||
                  (other.seconds == cost.seconds && other.mode >= cost.mode);
         });
}

// Returns "1.720 GB of weights are read for each of 8 tiles", or an empty string if no weights are read again.
std::string repeated_weights_text(const MappedProgram& m) {
  for (const MappedPass& pass : m.passes)
    if (!pass.weights_resident && pass.tiles > 1 && pass.weight_bytes > 0)
      return fmt::format("{} of weights are read for each of {} tiles",
                         format_with_prefix(static_cast<double>(pass.weight_bytes), "B"), pass.tiles);
  return {};
}

// Returns the fastest mode, and by how much fusing is slower.
std::string fastest_mode_text(const MappedProgram& m) {
  if (m.launch_modes.size() != 1) return {};
  const CallModeReport& report = m.launch_modes.front();
  const auto fastest = std::ranges::find_if(report.costs, [&](const CallModeCost& c) { return is_fastest(report, c); });
  std::string out =
      fmt::format("fastest: {}, {}", call_mode_name(fastest->mode), format_with_prefix(fastest->seconds, "s"));
  const CallModeCost& fused = report.cost_of(CallMode::fused);
  if (fastest->mode == CallMode::kernel_by_kernel && fused.is_possible) {
    out +=
        fmt::format("; fusing does not pay: {} times as long", format_significant(fused.seconds / fastest->seconds, 3));
    if (const std::string reason = repeated_weights_text(m); !reason.empty()) out += "; " + reason;
  }
  return out + "\n";
}

Json pass_json(const MappedPass& m) {
  const Placement& p = m.placement;
  Json out;
  out["rows"] = {{"dim", or_null(m.streamed_dim)}, {"extent", m.extent}, {"tile", m.tile}, {"tiles", m.tiles}};
  out["inner"] = m.inner_dim.empty() ? Json(nullptr)
                                     : Json{{"dim", m.inner_dim}, {"tile", m.inner_tile}, {"tiles", m.inner_tiles}};
  out["weights"] = {{"bytes", m.weight_bytes}, {"pmus", m.weight_pmus}, {"stay", m.weights_resident}};
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
                      {"gain_over_even_share", p.speedup_over_even()}};
  out["clock_s"] = static_cast<double>(m.run.cycles) * 1e-9;
  out["sequential_s"] = static_cast<double>(m.sequential_ns) * 1e-9;
  out["bytes"] = m.off_chip_bytes();
  return out;
}

}  // namespace

std::string render_text(const MappedProgram& m, const TextStyle& style) {
  std::string out = fmt::format("{}  on {}\n", m.program, m.fabric);
  for (std::size_t i = 0; i < m.passes.size(); ++i) {
    if (m.passes.size() > 1) out += fmt::format("pass {} of {}: ", i + 1, m.passes.size());
    out += pass_text(m.passes[i], style);
  }
  out += call_modes_text(m.launch_modes, fmt::format("{} layer{}", m.layers, m.layers == 1 ? "" : "s"), style) +
         fastest_mode_text(m);
  if (m.passes.size() > 1) out += "\na layer of several passes is not looped: the chip is reconfigured for each\n";
  return out + "\nno time per call is published: --sync sets one; clock and rates: docs/simulate.md\n";
}

std::string render_json(const MappedProgram& m) {
  Json out{{"schema", "ridge.simulate/1"}, {"verb", "simulate"},     {"program", m.program},
           {"machine", m.fabric},          {"schedule", m.schedule}, {"layers", m.layers}};
  out["passes"] = Json::array();
  for (const MappedPass& pass : m.passes) out["passes"].push_back(pass_json(pass));
  out["calling"] = Json::array();
  for (const CallModeReport& r : m.launch_modes)
    for (const CallModeCost& c : r.costs)
      out["calling"].push_back({{"name", call_mode_name(c.mode)},
                                {"calls", c.calls},
                                {"bytes", c.bytes},
                                {"sync_s", c.sync_seconds},
                                {"time_s", c.is_possible ? Json(c.seconds) : Json(nullptr)},
                                {"bandwidth_fraction", c.is_possible ? Json(c.bandwidth_fraction) : Json(nullptr)},
                                {"fastest", is_fastest(r, c)}});
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
    for (const Event& e : one.events) all.add_event(first + e.lane, e.phase, begin + e.begin, begin + e.end, e.step);
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
  if (m.launch_modes.size() > 1)
    return call_modes_svg(m.launch_modes,
                          fmt::format("{} on {}, {} layer{}", m.program, m.fabric, m.layers, m.layers == 1 ? "" : "s"),
                          "kernel by kernel, fused, and all layers looped in one call; no time per call is published");
  const Placement& p = m.passes.back().placement;
  return pipeline_fill_svg(
      timeline_of(m), title_of(m),
      fmt::format("one tile every {}, limited by {}", format_with_prefix(p.interval_seconds, "s"), p.bottleneck));
}

std::string render_text(std::span<const TpuV1Row> rows, const TextStyle& style) {
  Cells cells;
  for (const TpuV1Row& row : rows)
    cells.push_back({fmt::format("  {}", row.name), fmt::format("batch {:>3}", row.batch),
                     row.modelled ? fmt::format("{:.1f} %", 100 * *row.modelled) : "–",
                     fmt::format("{:.1f} %", 100 * row.measured_active), std::string(row.remark)});
  return "TPU v1, share of cycles in which rows stream: model and table 3 of the paper\n" +
         text_table(cells,
                    {.right = {false, false, true, true, false},
                     .column_names = {"application", "batch", "model", "paper", "remark"}},
                    style);
}

std::string render_tpu_v1_json(std::span<const TpuV1Row> rows) {
  Json out{
      {"schema", "ridge.simulate/1"}, {"verb", "simulate weights"}, {"machine", "tpu_v1"}, {"rows", Json::array()}};
  for (const TpuV1Row& row : rows)
    out["rows"].push_back({{"name", row.name},
                           {"batch", row.batch},
                           {"modelled_active", or_null(row.modelled)},
                           {"measured_active", row.measured_active},
                           {"why", or_null(row.remark)}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2) + "\n";
}

}  // namespace ridge
