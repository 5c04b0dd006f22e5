#include "ridge/plan/model/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/roofline/network.h"

namespace ridge {

std::vector<std::int64_t> divide_layers(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++out[static_cast<std::size_t>(i)];
  return out;
}

bool sends_beyond_host(std::int64_t stage, std::int64_t stage_chips, std::int64_t host_chips) {
  if (host_chips == 0) return false;
  for (std::int64_t chip = stage * stage_chips; chip < (stage + 1) * stage_chips; ++chip)
    if (chip / host_chips != (chip + stage_chips) / host_chips) return true;
  return false;
}

std::int64_t count_sends_beyond_host(std::int64_t stages, std::int64_t stage_chips, std::int64_t host_chips) {
  std::int64_t count = 0;
  for (std::int64_t stage = 0; stage + 1 < stages; ++stage)
    count += sends_beyond_host(stage, stage_chips, host_chips) ? 1 : 0;
  return count;
}

Result<SendCosts> compute_send_costs(const Machine& machine) {
  RIDGE_TRY(network, make_network(machine));
  RIDGE_TRY(unit, time_point_to_point(machine, 1, 1));
  SendCosts out;
  out.host_chips = network.first_link_chips;
  out.inside_host.links = {unit.first_byte_s, unit.last_byte_s - unit.first_byte_s};
  if (network.library) out.inside_host.protocols = list_protocols(*network.library, Collective::permute, 2);
  Network beyond = network;
  beyond.mesh = {{'P', 2}};
  beyond.chip_stride = std::max<std::int64_t>(1, network.first_link_chips);
  out.beyond_host = estimate_cost({Collective::permute, "P", 2, Polynomial(1)}, beyond);
  return out;
}

Status check_stage_links(const Machine& machine, const model::ChipLayout& layout) {
  RIDGE_TRY(network, make_network(machine));
  const std::int64_t chips = layout.pipeline * layout.stage_chips(), host_chips = network.first_link_chips;
  if (network.outer_levels.empty() && host_chips > 0 && chips > host_chips)
    return input_error(
        fmt::format("expected stages of at most {} chips in all, which {} joins, found {}; no link beyond is on record",
                    host_chips, network.link, chips),
        fmt::format("use at most {} chips, or a machine file with a further [link.NAME]", host_chips));
  return Done{};
}

}  // namespace ridge
