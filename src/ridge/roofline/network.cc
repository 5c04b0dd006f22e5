#include "ridge/roofline/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"

namespace ridge {
namespace {

std::int64_t axes_of(const Transfer& transfer) { return std::max<std::int64_t>(1, std::ssize(transfer.over)); }

// Two devices have one neighbour each, and one link to it.
bool both_ways(const Transfer& transfer, const Network& network) {
  return network.topology == Topology::ring && network.links > 1 && transfer.devices > 2;
}

bool straight(const std::optional<Topology>& topology) {
  return topology == Topology::switched || topology == Topology::direct;
}

// Bytes that pass a link while a hop is waited for, whole.
Polynomial waiting(const Transfer& transfer, const Network& network, double rate) {
  const double bytes = std::round(static_cast<double>(hops(transfer, network)) * network.latency_s * rate);
  return bytes < 0x1p62 ? Polynomial(static_cast<std::int64_t>(bytes)) : Polynomial();
}

}  // namespace

Result<Network> network_of(const Machine& machine) {
  if (machine.links.empty())
    return input_error(fmt::format("machine '{}' has no link on record", machine.name),
                       "give its rate one way: --link 4.5e10");
  const Link& link = machine.links.front();
  Network out{.link = link.name, .topology = link.topology, .rate = link.bandwidth.value};
  if (link.topology && link.count) out.links = std::max<std::int64_t>(1, std::llround(link.count->value));
  if (link.latency) out.latency_s = link.latency->value;
  return out;
}

Polynomial bytes_sent(const Transfer& transfer, const std::optional<Topology>& topology, bool both_ways) {
  const std::int64_t n = transfer.devices;
  const Polynomial once = transfer.bytes * Rational(n - 1, n);
  switch (transfer.kind) {
    case Collective::reduce_scatter:
    case Collective::all_gather: return once;
    case Collective::all_reduce: return once * 2;
    case Collective::all_to_all: break;
  }
  if (straight(topology)) return once;
  return transfer.bytes * (both_ways ? Rational(n * n / 4, n) : Rational(n - 1, 2));
}

Polynomial sent_on_a_ring(const Transfer& transfer) { return bytes_sent(transfer, std::nullopt, false); }

std::int64_t hops(const Transfer& transfer, const Network& network) {
  std::int64_t once = 1;
  if (!straight(network.topology)) once = both_ways(transfer, network) ? transfer.devices / 2 : transfer.devices - 1;
  return transfer.kind == Collective::all_reduce ? 2 * once : once;
}

std::int64_t links_used(const Transfer& transfer, const Network& network) {
  if (network.topology == Topology::switched) return network.links;
  if (network.topology == Topology::direct) return std::min(network.links, transfer.devices - 1);
  if (network.topology != Topology::ring) return 1;
  return std::min(network.links, (both_ways(transfer, network) ? 2 : 1) * axes_of(transfer));
}

void route(std::vector<Work>& work, Network& network) {
  std::int64_t fewest = network.links;
  for (const Work& each : work)
    for (const Transfer& t : each.transfers) fewest = std::min(fewest, links_used(t, network));
  network.links_used = fewest;
  for (Work& each : work) {
    each.bytes_sent = each.load = Polynomial();
    for (const Transfer& t : each.transfers) {
      const Polynomial sent = bytes_sent(t, network.topology, both_ways(t, network));
      each.bytes_sent += sent;
      each.load += sent * Rational(fewest, links_used(t, network)) + waiting(t, network, network.used_rate());
    }
  }
}

std::string text(const Network& network) {
  const std::string rate = engineering(network.used_rate(), "B/s") + " one way";
  const std::string links =
      network.links_used > 1 ? fmt::format("{} x {}", network.links_used, network.link) : network.link;
  std::string how = "one ring, one way";
  if (network.topology == Topology::ring)
    how = network.links_used > 1 ? "a ring along each mesh axis, both ways" : "a ring";
  if (network.topology == Topology::switched) how = "straight through a switch";
  if (network.topology == Topology::direct) how = "straight to each";
  std::string out = fmt::format("{}: {}, {}", links, how, rate);
  if (network.latency_s > 0) out += fmt::format(", {} a hop", engineering(network.latency_s, "s"));
  return out;
}

Result<Passage> passage(const Machine& machine, double bytes, std::int64_t hops) {
  if (!(bytes > 0 && bytes < 1e38) || hops < 1 || hops > 1 << 20)
    return usage_error(fmt::format("expected bytes above 0 and 1 to {} hops, found {} and {}", 1 << 20, bytes, hops),
                       "--send 17e6 --hops 6");
  const auto network = network_of(machine);
  if (!network) return network.error();
  Passage out{.link = network->link, .bytes = bytes, .hops = hops};
  if (network->topology == Topology::switched) out.links = network->links;
  if (network->topology == Topology::ring) out.links = std::max<std::int64_t>(1, network->links / 2);
  out.first_s = static_cast<double>(hops) * network->latency_s;
  out.all_s = out.first_s + bytes / (network->rate * static_cast<double>(out.links));
  return out;
}

std::string text(const Passage& p) {
  std::string out =
      fmt::format("{} over {}{}, {} hop{}: ", engineering(p.bytes, "B"),
                  p.links > 1 ? fmt::format("{} x ", p.links) : "", p.link, p.hops, p.hops == 1 ? "" : "s");
  const std::string sending = engineering(p.all_s - p.first_s, "s");
  if (p.first_s == 0) return out + fmt::format("{}; the latency of a hop is not on record", sending);
  return out + fmt::format("the first byte after {}, all after {}, {} of it sending", engineering(p.first_s, "s"),
                           engineering(p.all_s, "s"), sending);
}

}  // namespace ridge
