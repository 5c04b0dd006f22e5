#include "ridge/roofline/sending/level_work.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ridge/roofline/sending/torus.h"

namespace ridge {
namespace {

// Positions of a transfer's devices in one collective, ascending from 0, and the positions at which collectives along
// the same mesh axes begin.
struct DevicePositions {
  std::vector<std::int64_t> devices{0}, starts{0};
};

void add_axis(std::vector<std::int64_t>& positions, std::int64_t size, std::int64_t stride) {
  const std::size_t before = positions.size();
  for (std::int64_t at = 1; at < size; ++at)
    for (std::size_t i = 0; i < before; ++i) positions.push_back(positions[i] + at * stride);
}

// Positions repeat with the least common multiple of the levels' reaches, `period`.
DevicePositions locate_devices(const Transfer& transfer, const Network& network, std::int64_t period) {
  DevicePositions out;
  std::int64_t stride = network.chip_stride;
  for (auto axis = network.mesh.rbegin(); axis != network.mesh.rend(); stride *= (axis++)->second) {
    if (transfer.mesh_axes.find(axis->first) != std::string::npos) {
      add_axis(out.devices, axis->second, stride);
      continue;
    }
    add_axis(out.starts, std::min(axis->second, period), stride);
    for (std::int64_t& start : out.starts) start %= period;
    const std::set<std::int64_t> distinct(out.starts.begin(), out.starts.end());
    out.starts.assign(distinct.begin(), distinct.end());
  }
  if (std::ssize(out.devices) == transfer.devices) return out;
  out = {std::vector<std::int64_t>(transfer.devices), {0}};  // Unknown mesh: assume consecutive chips
  for (std::int64_t i = 0; i < transfer.devices; ++i) out.devices[i] = i * network.chip_stride;
  return out;
}

// Returns the groups of one collective at each reach, up to the first that contains all devices; reach 0 is unlimited.
std::vector<DeviceGroups> group_positions(const std::vector<std::int64_t>& devices, std::int64_t start,
                                          const std::vector<std::int64_t>& reaches) {
  std::vector<DeviceGroups> out;
  for (const std::int64_t reach : reaches) {
    const std::int64_t inner_reach = out.empty() ? 1 : reaches[out.size() - 1];
    const auto n = std::ssize(devices);
    DeviceGroups groups{.count = 0, .min_devices = n, .max_devices = 0, .max_members = 0};
    for (std::size_t i = 0; i < devices.size(); ++groups.count) {
      const auto group_at = [&](std::size_t j, std::int64_t size) {
        return size == 0 ? 0 : (devices[j] + start) / size;
      };
      const std::int64_t group = group_at(i, reach);
      std::int64_t members = 0, inside = 0;
      for (; i < devices.size() && group_at(i, reach) == group; ++i, ++inside)
        members += inside == 0 || group_at(i, inner_reach) != group_at(i - 1, inner_reach) ? 1 : 0;
      groups.min_devices = std::min(groups.min_devices, inside);
      groups.max_devices = std::max(groups.max_devices, inside);
      groups.max_members = std::max(groups.max_members, members);
    }
    out.push_back(groups);
    if (groups.count == 1) break;
  }
  return out;
}

// Keeps the slower groups of each level.
void merge_groups(std::vector<DeviceGroups>& all, const std::vector<DeviceGroups>& other) {
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (i == all.size()) {
      all.push_back(other[i]);
      continue;
    }
    const bool is_slower =
        std::pair(other[i].min_devices, all[i].count) < std::pair(all[i].min_devices, other[i].count);
    const DeviceGroups& slower = is_slower ? other[i] : all[i];
    all[i] = {slower.count, slower.min_devices, std::max(all[i].max_devices, other[i].max_devices),
              std::max(all[i].max_members, other[i].max_members)};
  }
}

// Returns the bytes that a device of the smallest group sends beyond its group.
Polynomial bytes_beyond_groups(const Transfer& t, const DeviceGroups& groups) {
  const std::int64_t n = t.devices, least = groups.min_devices;
  switch (t.kind) {
    case Collective::permute: return t.bytes;
    case Collective::all_to_all: return t.bytes * Rational(n - least, n);
    case Collective::all_reduce: return t.bytes * std::max(Rational(2 * (groups.count - 1), n), Rational(1, least));
    case Collective::reduce_scatter:
    case Collective::all_gather: break;
  }
  return t.bytes * Rational(n - least, n * least);
}

// Returns the bytes and the rate on the first link, for the largest group that it joins.
LevelWork count_first_level(const Transfer& t, std::int64_t devices, const Network& network) {
  Transfer inner = t;
  inner.devices = devices;
  if (t.kind == Collective::all_to_all) inner.bytes = t.bytes * Rational(devices, t.devices);
  TorusWork work{Rational(devices - 1, devices), network.links};
  if (network.topology == Topology::direct)
    work.links = std::min(network.links, std::max<std::int64_t>(1, devices - 1));
  if (network.topology != Topology::switched && network.topology != Topology::direct)
    work = count_torus_work(t.kind, list_torus_axes(inner, network), network.topology ? network.links : 1);
  else if (t.kind == Collective::all_reduce)
    work.bytes_sent = network.reduces_in_switch && devices > 1 ? Rational(1) : work.bytes_sent * 2;
  else if (t.kind == Collective::permute)
    work.bytes_sent = 1;
  return {network.link, devices, inner.bytes * work.bytes_sent, network.rate * static_cast<double>(work.links)};
}

}  // namespace

std::vector<DeviceGroups> group_devices(const Transfer& transfer, const Network& network) {
  const std::int64_t n = transfer.devices;
  if (network.first_link_chips == 0 || network.outer_levels.empty()) return {{1, n, n, n}};
  std::vector<std::int64_t> reaches{network.first_link_chips};
  std::int64_t period = network.first_link_chips;
  for (const NetworkLevel& level : network.outer_levels) {
    reaches.push_back(level.chips);
    if (level.chips == 0) break;
    period = std::lcm(period, level.chips);
  }
  reaches.back() = 0;
  const DevicePositions positions = locate_devices(transfer, network, period);
  std::vector<DeviceGroups> out;
  for (const std::int64_t start : positions.starts)
    merge_groups(out, group_positions(positions.devices, start, reaches));
  return out;
}

std::vector<LevelWork> count_level_work(const Transfer& t, const Network& network) {
  const std::vector<DeviceGroups> groups = group_devices(t, network);
  std::vector<LevelWork> out{count_first_level(t, groups[0].max_devices, network)};
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const NetworkLevel& level = network.outer_levels[i - 1];
    out.push_back({level.link, groups[i].max_members, bytes_beyond_groups(t, groups[i - 1]), level.rate,
                   groups[i - 1].min_devices});
  }
  return out;
}

std::int64_t count_hops(const Transfer& transfer, const Network& network) {
  std::int64_t once = 1;
  if (network.topology != Topology::switched && network.topology != Topology::direct) {
    Transfer inner = transfer;
    inner.devices = group_devices(transfer, network)[0].max_devices;
    once = 0;
    for (const TorusAxis& axis : list_torus_axes(inner, network)) once += axis.count_hops() * network.chip_stride;
  }
  return transfer.kind == Collective::all_reduce ? 2 * once : once;
}

}  // namespace ridge
