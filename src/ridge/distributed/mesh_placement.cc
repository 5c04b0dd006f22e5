#include "ridge/distributed/mesh_placement.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/roofline/sending/level_work.h"
#include "ridge/roofline/sending/torus.h"

namespace ridge {
namespace {

// Returns " (4 x 4)", or " (256 as 16 x 16)" if only a part of the axis is on a torus; empty for a single torus axis.
std::string describe_torus_axes(const std::vector<TorusAxis>& axes, std::int64_t size) {
  if (axes.size() < 2) return {};
  std::string sides;
  std::int64_t chips = 1;
  for (const TorusAxis& axis : axes) {
    sides += fmt::format("{}{}", sides.empty() ? "" : " x ", axis.chips);
    chips *= axis.chips;
  }
  return chips == size ? fmt::format(" ({})", sides) : fmt::format(" ({} as {})", chips, sides);
}

Transfer gather_along(char letter, std::int64_t devices) {
  return {Collective::all_gather, std::string(1, letter), devices, Polynomial(1)};
}

}  // namespace

MeshPlacement place_mesh(const Mesh& mesh, Network network) {
  network.mesh = mesh.axes;
  MeshPlacement out;
  for (const auto& [letter, size] : mesh.axes) {
    Transfer transfer = gather_along(letter, size);
    const std::vector<LevelWork> levels = count_level_work(transfer, network);
    if (levels.size() > 1) out.outer_links[letter] = levels.back().link;
    transfer.devices = levels.front().group_size;
    out.text += fmt::format("{}{}={}", out.text.empty() ? "" : " ", letter, size);
    if (network.topology != Topology::ring) continue;
    const std::vector<TorusAxis> axes = list_torus_axes(transfer, network);
    out.rings[letter] = std::max<std::int64_t>(1, std::ssize(axes));
    out.text += describe_torus_axes(axes, size);
  }
  return out;
}

std::string describe_outer_links(const Network& network, std::int64_t chips) {
  if (network.first_link_chips == 0 || chips <= network.first_link_chips) return {};
  std::string out;
  std::int64_t reach = network.first_link_chips;
  for (const NetworkLevel& level : network.outer_levels) {
    out += fmt::format("; beyond {} chips: {}, {} per chip", reach, level.link, format_with_prefix(level.rate, "B/s"));
    reach = level.chips;
    if (reach == 0 || chips <= reach) break;
  }
  return out;
}

}  // namespace ridge
