#include "ridge/roofline/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/roofline/sending/level_work.h"
#include "ridge/roofline/sending/torus.h"

namespace ridge {
namespace {

bool is_switched_or_direct(const std::optional<Topology>& topology) {
  return topology == Topology::switched || topology == Topology::direct;
}

std::int64_t read_chip_count(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? 0 : std::llround(found->second.value);
}

double chip_link_rate(const Link& link) { return link.bandwidth.value * (link.count ? link.count->value : 1); }

// Adds the links that are slower than the preceding one as levels, from the inside out; a host link (pcie) is no level.
void add_outer_levels(Network& network, const Machine& machine) {
  network.min_ring_chips = read_chip_count(machine, "wrap_chips");
  network.min_torus_chips = read_chip_count(machine, "wrap_slice_chips");
  network.reduces_in_switch = network.topology == Topology::switched && read_chip_count(machine, "switch_reduces") == 1;
  network.first_link_chips = read_chip_count(machine, "pod_chips");
  if (network.first_link_chips == 0 && is_switched_or_direct(network.topology))
    network.first_link_chips = read_chip_count(machine, "host_chips");
  const std::int64_t directly_linked = network.topology == Topology::direct ? network.links + 1 : 0;
  if (directly_linked > 0 && (network.first_link_chips == 0 || directly_linked < network.first_link_chips))
    network.first_link_chips = directly_linked;
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

Status check_reach(const Transfer& transfer, const Network& network) {
  if (network.first_link_chips == 0 || !network.outer_levels.empty()) return Done{};
  Network unlimited = network;
  unlimited.outer_levels.push_back({});
  if (group_devices(transfer, unlimited).size() == 1) return Done{};
  return input_error(
      fmt::format("expected collectives over at most {} chips, which {} joins, found one over {}; no link beyond is on "
                  "record",
                  network.first_link_chips, network.link, transfer.devices),
      fmt::format("use at most {} chips, or a machine file with a further [link.NAME]", network.first_link_chips));
}

// Returns the seconds that the steps of all levels but the first take, by a tree.
static double estimate_outer_wait(const Transfer& transfer, const std::vector<LevelWork>& levels,
                                  const Network& network) {
  double steps = 0;
  for (std::size_t i = 1; i < levels.size(); ++i)
    steps += static_cast<double>(std::bit_width(static_cast<std::uint64_t>(levels[i].group_size - 1)));
  return (transfer.kind == Collective::all_reduce ? 2 : 1) * steps * network.step_s;
}

TransferCost estimate_cost(const Transfer& transfer, const Network& network) {
  Transfer unit = transfer;
  unit.bytes = Polynomial(1);
  const std::vector<LevelWork> levels = count_level_work(unit, network);
  const double outer_wait_s = estimate_outer_wait(unit, levels, network);
  TransferCost out;
  out.links.wait_s = static_cast<double>(count_hops(transfer, network)) * network.latency_s + outer_wait_s;
  for (const LevelWork& level : levels)
    if (const auto bytes = level.bytes_sent.as_constant())
      out.links.seconds_per_byte = std::max(out.links.seconds_per_byte, bytes->to_double() / level.rate);
  const std::int64_t inside = levels.front().group_size;
  if (!network.library || inside < 2) return out;
  const bool is_exchange = transfer.kind == Collective::all_to_all;
  const double part = is_exchange ? static_cast<double>(inside) / static_cast<double>(transfer.devices) : 1;
  for (const LinearTime& each : list_protocols(*network.library, transfer.kind, inside))
    out.protocols.push_back({each.wait_s + outer_wait_s, each.seconds_per_byte * part});
  return out;
}

double time_transfer(const Transfer& transfer, const Network& network) {
  const auto bytes = transfer.bytes.as_constant();
  return estimate_cost(transfer, network).seconds(bytes ? bytes->to_double() : 0);
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
  out.library = read_library_times(machine);
  add_outer_levels(out, machine);
  return out;
}

Polynomial bytes_sent_on_ring(const Transfer& transfer) {
  const TorusAxis ring{.chips = transfer.devices, .is_one_way = true};
  return transfer.bytes * count_torus_work(transfer.kind, {ring}, 1).bytes_sent;
}

// Returns the bytes that the links in use could send while the transfer waits for hops and steps, rounded.
static Polynomial wait_bytes(const Transfer& transfer, const Network& network) {
  const double bytes = std::round(transfer.cost.links.wait_s * network.used_rate());
  return bytes < 0x1p62 ? Polynomial(static_cast<std::int64_t>(bytes)) : Polynomial();
}

double network_seconds(const Work& work, const std::map<std::string, double>& sizes) {
  double out = 0;
  for (const Transfer& t : work.transfers) out += t.cost.seconds(t.bytes.evaluate_double(sizes));
  return out;
}

void route_transfers(std::vector<Work>& work, Network& network) {
  std::int64_t fewest = network.links;
  for (const Work& each : work)
    for (const Transfer& t : each.transfers)
      fewest = std::min<std::int64_t>(fewest, std::llround(count_level_work(t, network).front().rate / network.rate));
  network.links_used = fewest;
  for (Work& each : work) {
    each.bytes_sent = each.link_load = Polynomial();
    for (Transfer& t : each.transfers) {
      t.cost = estimate_cost(t, network);
      const SlowestLevel slowest = find_slowest_level(t, network);
      each.bytes_sent += slowest.bytes_sent;
      each.link_load += to_first_link_bytes(slowest, network) + wait_bytes(t, network);
      if (!slowest.link.empty()) network.slowest_level = slowest.link;
    }
  }
}

std::string describe_links(const Network& network) {
  const std::string rate = format_with_prefix(network.used_rate(), "B/s") + " one way";
  const std::string links =
      network.links_used > 1 ? fmt::format("{} x {}", network.links_used, network.link) : network.link;
  std::string how = "one ring, one way";
  if (network.topology == Topology::ring) how = network.links > 1 ? describe_axes(network) : "a ring";
  if (network.topology == Topology::switched) how = "directly through a switch";
  if (network.topology == Topology::direct) how = "directly to each chip";
  std::string out = fmt::format("{}: {}, {}", links, how, rate);
  if (network.latency_s > 0) out += fmt::format(", {} per hop", format_with_prefix(network.latency_s, "s"));
  return out;
}

std::string describe_network(const Network& network) {
  std::string out = describe_links(network);
  for (const NetworkLevel& level : network.outer_levels)
    if (level.link == network.slowest_level)
      out += fmt::format("; beyond {} chips: {}, {} per chip", network.first_link_chips, level.link,
                         format_with_prefix(level.rate, "B/s"));
  if (network.library) out += "; no less than a timed library takes";
  if (network.latency_s == 0 && !network.library) out += "; the latency of a collective is not on record";
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
