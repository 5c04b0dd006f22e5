#include "ridge/roofline/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ridge/base/string_util.h"
#include "ridge/roofline/sizes/level_work.h"

namespace ridge {
namespace {

// True if a ring is used in both directions. Two devices, and the ends of an open line, have only one link to use.
bool runs_both_ways(const Transfer& transfer, const Network& network) {
  return network.topology == Topology::ring && network.links > 1 && transfer.devices > 2 &&
         transfer.devices >= network.min_ring_chips;
}

// Returns the number of a chip's rings that the transfer uses.
std::int64_t count_rings(const Transfer& transfer, const Network& network) {
  std::int64_t out = 0;
  for (const char axis : transfer.mesh_axes) {
    const auto given = network.rings_per_axis.find(axis);
    out += given == network.rings_per_axis.end() ? 1 : given->second;
  }
  return std::max<std::int64_t>(1, out);
}

bool is_switched_or_direct(const std::optional<Topology>& topology) {
  return topology == Topology::switched || topology == Topology::direct;
}

// Returns the bytes that a link could send during the latency of all hops, rounded.
Polynomial latency_bytes(const Transfer& transfer, const Network& network, double rate) {
  const double bytes = std::round(static_cast<double>(count_hops(transfer, network)) * network.latency_s * rate);
  return bytes < 0x1p62 ? Polynomial(static_cast<std::int64_t>(bytes)) : Polynomial();
}

std::int64_t read_chip_count(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? 0 : std::llround(found->second.value);
}

double chip_link_rate(const Link& link) { return link.bandwidth.value * (link.count ? link.count->value : 1); }

// Adds the links that are slower than the preceding one as levels, from the inside out; a host link (pcie) is no level.
void add_outer_levels(Network& network, const Machine& machine) {
  network.min_ring_chips = read_chip_count(machine, "wrap_chips");
  network.reduces_in_switch = network.topology == Topology::switched && read_chip_count(machine, "switch_reduces") == 1;
  network.first_link_chips = read_chip_count(machine, "pod_chips");
  if (network.first_link_chips == 0 && is_switched_or_direct(network.topology))
    network.first_link_chips = read_chip_count(machine, "host_chips");
  if (network.first_link_chips == 0) return;
  for (std::size_t i = 1; i < machine.links.size() && machine.links[i].name != "pcie"; ++i) {
    const double before =
        network.outer_levels.empty() ? chip_link_rate(machine.links[0]) : network.outer_levels.back().rate;
    const double rate = chip_link_rate(machine.links[i]);
    if (rate <= before) network.outer_levels.push_back({machine.links[i].name, rate});
  }
  const std::int64_t leaf = read_chip_count(machine, "leaf_chips"),
                     spine_share = read_chip_count(machine, "spine_part");
  if (leaf == 0 || network.outer_levels.empty()) return;
  network.outer_levels.back().chips = leaf;
  network.outer_levels.push_back(
      {"spine", network.outer_levels.back().rate / static_cast<double>(std::max<std::int64_t>(1, spine_share))});
}

// Returns the bytes that a chip sends on an outer level, which joins `groups` groups of `inside` devices.
Polynomial bytes_sent_at_level(const Transfer& t, std::int64_t inside, std::int64_t groups) {
  const std::int64_t n = t.devices;
  switch (t.kind) {
    case Collective::permute: return t.bytes;
    case Collective::all_to_all: return t.bytes * Rational(n - inside, n);
    case Collective::all_reduce: return t.bytes * Rational(2 * (groups - 1), groups * inside);
    case Collective::reduce_scatter:
    case Collective::all_gather: break;
  }
  return t.bytes * Rational(groups - 1, groups * inside);
}

// Level on which a transfer takes longest: the bytes that a chip sends there and their rate.
struct SlowestLevel {
  Polynomial bytes_sent;
  double rate = 0;
  std::string link = {};  // Name of the outer level's link; the empty string means the first link
};

// Each level sends a fixed fraction of the bytes, so the slowest level does not depend on their number.
SlowestLevel find_slowest_level(const Transfer& t, const Network& network) {
  SlowestLevel out;
  double slowest = 0;
  for (const LevelWork& level : count_level_work(t, network)) {
    const bool none = t.bytes.is_zero() || level.bytes_sent.is_zero();
    const double part =
        none ? 0 : level.bytes_sent.terms().begin()->second.to_double() / t.bytes.terms().begin()->second.to_double();
    if (out.rate > 0 && part / level.rate <= slowest) continue;
    out.link = out.rate > 0 ? level.link : "";
    out.bytes_sent = level.bytes_sent;
    out.rate = level.rate;
    slowest = part / level.rate;
  }
  return out;
}

}  // namespace

// Returns the bytes that the first link would send, at its rate in use, in the time of the slowest level.
static Polynomial to_first_link_bytes(const SlowestLevel& slowest, const Network& network) {
  if (slowest.link.empty())
    return slowest.bytes_sent * Rational(network.links_used, std::llround(slowest.rate / network.rate));
  const double times = network.used_rate() / slowest.rate;
  return slowest.bytes_sent * Rational(std::llround(times * (1 << 20)), 1 << 20);
}

std::vector<std::int64_t> group_sizes(const Transfer& transfer, const Network& network) {
  if (network.first_link_chips == 0 || network.outer_levels.empty()) return {transfer.devices};
  std::vector<std::int64_t> devices{0};  // Devices that take part together with device 0
  std::int64_t stride = 1;
  for (auto axis = network.mesh.rbegin(); axis != network.mesh.rend(); ++axis) {
    const std::size_t before = devices.size();
    if (transfer.mesh_axes.find(axis->first) != std::string::npos)
      for (std::int64_t at = 1; at < axis->second; ++at)
        for (std::size_t i = 0; i < before; ++i) devices.push_back(devices[i] + at * stride);
    stride *= axis->second;
  }
  if (std::ssize(devices) != transfer.devices) {  // Unknown mesh: assume consecutive chips
    devices.resize(transfer.devices);
    std::iota(devices.begin(), devices.end(), 0);
  }
  const auto within = [&](std::int64_t chips) {
    return std::count_if(devices.begin(), devices.end(), [&](std::int64_t d) { return chips == 0 || d < chips; });
  };
  std::vector<std::int64_t> out{within(network.first_link_chips)};
  std::int64_t inside = out[0];
  for (const NetworkLevel& level : network.outer_levels) {
    if (inside >= transfer.devices) break;
    out.push_back((within(level.chips) + inside - 1) / inside);
    inside *= out.back();
    if (level.chips == 0) break;
  }
  return out;
}

std::vector<LevelWork> count_level_work(const Transfer& t, const Network& network) {
  const std::vector<std::int64_t> groups = group_sizes(t, network);
  Transfer inner = t;
  inner.devices = groups[0];
  if (t.kind == Collective::all_to_all) inner.bytes = t.bytes * Rational(groups[0], t.devices);
  Polynomial sent = count_bytes_sent(inner, network.topology, runs_both_ways(inner, network));
  if (network.reduces_in_switch && t.kind == Collective::all_reduce && groups[0] > 1) sent = t.bytes;
  std::vector<LevelWork> out{
      {network.link, groups[0], sent, network.rate * static_cast<double>(count_links_used(inner, network))}};
  std::int64_t inside = groups[0];
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const NetworkLevel& level = network.outer_levels[i - 1];
    out.push_back({level.link, groups[i], bytes_sent_at_level(t, inside, groups[i]), level.rate});
    inside *= groups[i];
  }
  return out;
}

double time_transfer(const Transfer& transfer, const Network& network) {
  const SlowestLevel slowest = find_slowest_level(transfer, network);
  const auto bytes = slowest.bytes_sent.as_constant();
  return (bytes ? bytes->to_double() / slowest.rate : 0) +
         static_cast<double>(count_hops(transfer, network)) * network.latency_s;
}

Result<Network> make_network(const Machine& machine) {
  if (machine.links.empty())
    return input_error(fmt::format("machine '{}' has no link on record", machine.name),
                       "give its rate one way: --link 4.5e10");
  const Link& link = machine.links.front();
  Network out{.link = link.name, .topology = link.topology, .rate = link.bandwidth.value};
  if (link.topology && link.count) out.links = std::max<std::int64_t>(1, std::llround(link.count->value));
  if (link.latency) out.latency_s = link.latency->value;
  const auto step = machine.numbers.find("collective_step_s");
  out.step_s = step == machine.numbers.end() || out.latency_s > 0 ? out.latency_s : step->second.value;
  add_outer_levels(out, machine);
  return out;
}

Polynomial count_bytes_sent(const Transfer& transfer, const std::optional<Topology>& topology, bool both_ways) {
  const std::int64_t n = transfer.devices;
  const Polynomial once = transfer.bytes * Rational(n - 1, n);
  switch (transfer.kind) {
    case Collective::reduce_scatter:
    case Collective::all_gather: return once;
    case Collective::all_reduce: return once * 2;
    case Collective::permute:
      if (is_switched_or_direct(topology)) return transfer.bytes;
      return transfer.bytes * (both_ways ? n / 2 : n - 1);
    case Collective::all_to_all: break;
  }
  if (is_switched_or_direct(topology)) return once;
  return transfer.bytes * (both_ways ? Rational(n * n / 4, n) : Rational(n - 1, 2));
}

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_reduce: return "all-reduce";
    case Collective::all_to_all: return "all-to-all";
    case Collective::all_gather: return "all-gather";
    case Collective::permute: return "permute";
  }
  return "";
}

Polynomial bytes_sent_on_ring(const Transfer& transfer) { return count_bytes_sent(transfer, std::nullopt, false); }

std::int64_t count_hops(const Transfer& transfer, const Network& network) {
  std::int64_t once = 1;
  if (!is_switched_or_direct(network.topology))
    once = runs_both_ways(transfer, network) ? transfer.devices / 2 : transfer.devices - 1;
  return transfer.kind == Collective::all_reduce ? 2 * once : once;
}

std::int64_t count_links_used(const Transfer& transfer, const Network& network) {
  if (network.topology == Topology::switched) return network.links;
  if (network.topology == Topology::direct) return std::min(network.links, transfer.devices - 1);
  if (network.topology != Topology::ring) return 1;
  return std::min(network.links, (runs_both_ways(transfer, network) ? 2 : 1) * count_rings(transfer, network));
}

void route_transfers(std::vector<Work>& work, Network& network) {
  std::int64_t fewest = network.links;
  for (const Work& each : work)
    for (const Transfer& t : each.transfers) fewest = std::min(fewest, count_links_used(t, network));
  network.links_used = fewest;
  for (Work& each : work) {
    each.bytes_sent = each.link_load = Polynomial();
    for (const Transfer& t : each.transfers) {
      const SlowestLevel slowest = find_slowest_level(t, network);
      each.bytes_sent += slowest.bytes_sent;
      each.link_load += to_first_link_bytes(slowest, network) + latency_bytes(t, network, network.used_rate());
      if (!slowest.link.empty()) network.slowest_level = slowest.link;
    }
  }
}

std::string describe_network(const Network& network) {
  const std::string rate = format_with_prefix(network.used_rate(), "B/s") + " one way";
  const std::string links =
      network.links_used > 1 ? fmt::format("{} x {}", network.links_used, network.link) : network.link;
  std::string how = "one ring, one way";
  if (network.topology == Topology::ring)
    how = network.links_used > 1 ? "a ring along each mesh axis, both ways" : "a ring";
  if (network.topology == Topology::switched) how = "directly through a switch";
  if (network.topology == Topology::direct) how = "directly to each chip";
  std::string out = fmt::format("{}: {}, {}", links, how, rate);
  if (network.latency_s > 0) out += fmt::format(", {} per hop", format_with_prefix(network.latency_s, "s"));
  for (const NetworkLevel& level : network.outer_levels)
    if (level.link == network.slowest_level)
      out += fmt::format("; beyond {} chips: {}, {} per chip", network.first_link_chips, level.link,
                         format_with_prefix(level.rate, "B/s"));
  return out;
}

Result<PointToPointTransfer> time_point_to_point(const Machine& machine, double bytes, std::int64_t hops) {
  if (!(bytes > 0 && bytes < 1e38) || hops < 1 || hops > 1 << 20)
    return usage_error(fmt::format("expected bytes above 0 and 1 to {} hops, found {} and {}", 1 << 20, bytes, hops),
                       "--send 17e6 --hops 6");
  RIDGE_TRY(network, make_network(machine));
  PointToPointTransfer out{.link = network.link, .bytes = bytes, .hops = hops};
  if (network.topology == Topology::switched) out.links = network.links;
  if (network.topology == Topology::ring) out.links = std::max<std::int64_t>(1, network.links / 2);
  out.first_byte_s = static_cast<double>(hops) * network.latency_s;
  out.last_byte_s = out.first_byte_s + bytes / (network.rate * static_cast<double>(out.links));
  return out;
}

std::string describe_point_to_point(const PointToPointTransfer& p) {
  std::string out =
      fmt::format("{} over {}{}, {} hop{}: ", format_with_prefix(p.bytes, "B"),
                  p.links > 1 ? fmt::format("{} x ", p.links) : "", p.link, p.hops, p.hops == 1 ? "" : "s");
  const std::string sending = format_with_prefix(p.last_byte_s - p.first_byte_s, "s");
  if (p.first_byte_s == 0) return out + fmt::format("{}; the latency of a hop is not on record", sending);
  return out + fmt::format("first byte after {}, last byte after {}, of which sending takes {}",
                           format_with_prefix(p.first_byte_s, "s"), format_with_prefix(p.last_byte_s, "s"), sending);
}

}  // namespace ridge
