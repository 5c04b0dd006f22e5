#include "ridge/roofline/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ridge/base/text.h"
#include "ridge/roofline/sizes/levels.h"

namespace ridge {
namespace {

// Two devices have one neighbour each, and one link to it; a line's ends have one as well.
bool both_ways(const Transfer& transfer, const Network& network) {
  return network.topology == Topology::ring && network.links > 1 && transfer.devices > 2 &&
         transfer.devices >= network.closes;
}

// A chip's rings that the transfer runs along.
std::int64_t rings_of(const Transfer& transfer, const Network& network) {
  std::int64_t out = 0;
  for (const char axis : transfer.over) {
    const auto given = network.rings.find(axis);
    out += given == network.rings.end() ? 1 : given->second;
  }
  return std::max<std::int64_t>(1, out);
}

bool straight(const std::optional<Topology>& topology) {
  return topology == Topology::switched || topology == Topology::direct;
}

// Bytes that pass a link while a hop is waited for, whole.
Polynomial waiting(const Transfer& transfer, const Network& network, double rate) {
  const double bytes = std::round(static_cast<double>(hops(transfer, network)) * network.latency_s * rate);
  return bytes < 0x1p62 ? Polynomial(static_cast<std::int64_t>(bytes)) : Polynomial();
}

std::int64_t chips(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? 0 : std::llround(found->second.value);
}

double rate_of(const Link& link) { return link.bandwidth.value * (link.count ? link.count->value : 1); }

// The links of a file that are slower than the one before stand from the inside out; what joins a chip to its host is
// none of them.
void add_levels(Network& network, const Machine& machine) {
  network.closes = chips(machine, "wrap_chips");
  network.reduces = network.topology == Topology::switched && chips(machine, "switch_reduces") == 1;
  network.reach = chips(machine, "pod_chips");
  if (network.reach == 0 && straight(network.topology)) network.reach = chips(machine, "host_chips");
  if (network.reach == 0) return;
  for (std::size_t i = 1; i < machine.links.size() && machine.links[i].name != "pcie"; ++i) {
    const double before = network.beyond.empty() ? rate_of(machine.links[0]) : network.beyond.back().rate;
    const double rate = rate_of(machine.links[i]);
    if (rate <= before) network.beyond.push_back({machine.links[i].name, rate});
  }
  const std::int64_t leaf = chips(machine, "leaf_chips"), share = chips(machine, "spine_part");
  if (leaf == 0 || network.beyond.empty()) return;
  network.beyond.back().chips = leaf;
  network.beyond.push_back(
      {"spine", network.beyond.back().rate / static_cast<double>(std::max<std::int64_t>(1, share))});
}

// What a chip sends at a level, the 0th being that of the first link; `at` it there are D groups of `inside` devices.
Polynomial sent_at(const Transfer& t, std::int64_t inside, std::int64_t groups) {
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

// On which level a transfer takes longest: what a chip sends there, and at which rate.
struct Way {
  Polynomial sent;
  double rate = 0;
  std::string level = {};  // empty: the first link's
};

// Each level sends so many bytes of V, so that the slowest is known before V is.
Way way_of(const Transfer& t, const Network& network) {
  Way out;
  double slowest = 0;
  for (const LevelWork& level : levels_of(t, network)) {
    const bool none = t.bytes.zero() || level.sent.zero();
    const double part = none ? 0 : level.sent.terms().begin()->second.real() / t.bytes.terms().begin()->second.real();
    if (out.rate > 0 && part / level.rate <= slowest) continue;
    out.level = out.rate > 0 ? level.link : "";
    out.sent = level.sent;
    out.rate = level.rate;
    slowest = part / level.rate;
  }
  return out;
}

}  // namespace

// What a way sends as the bytes that the first link's used rate passes meanwhile.
static Polynomial slowed(const Way& way, const Network& network) {
  if (way.level.empty()) return way.sent * Rational(network.links_used, std::llround(way.rate / network.rate));
  const double times = network.used_rate() / way.rate;
  return way.sent * Rational(std::llround(times * (1 << 20)), 1 << 20);
}

std::vector<std::int64_t> members(const Transfer& transfer, const Network& network) {
  if (network.reach == 0 || network.beyond.empty()) return {transfer.devices};
  std::vector<std::int64_t> devices{0};  // of those that take part with device 0
  std::int64_t stride = 1;
  for (auto axis = network.mesh.rbegin(); axis != network.mesh.rend(); ++axis) {
    const std::size_t before = devices.size();
    if (transfer.over.find(axis->first) != std::string::npos)
      for (std::int64_t at = 1; at < axis->second; ++at)
        for (std::size_t i = 0; i < before; ++i) devices.push_back(devices[i] + at * stride);
    stride *= axis->second;
  }
  if (std::ssize(devices) != transfer.devices) {  // the mesh is not known: chips side by side
    devices.resize(static_cast<std::size_t>(transfer.devices));
    std::iota(devices.begin(), devices.end(), 0);
  }
  const auto within = [&](std::int64_t chips) {
    return std::count_if(devices.begin(), devices.end(), [&](std::int64_t d) { return chips == 0 || d < chips; });
  };
  std::vector<std::int64_t> out{within(network.reach)};
  std::int64_t inside = out[0];
  for (const Level& level : network.beyond) {
    if (inside >= transfer.devices) break;
    out.push_back((within(level.chips) + inside - 1) / inside);
    inside *= out.back();
    if (level.chips == 0) break;
  }
  return out;
}

std::vector<LevelWork> levels_of(const Transfer& t, const Network& network) {
  const std::vector<std::int64_t> groups = members(t, network);
  Transfer inner = t;
  inner.devices = groups[0];
  if (t.kind == Collective::all_to_all) inner.bytes = t.bytes * Rational(groups[0], t.devices);
  Polynomial sent = bytes_sent(inner, network.topology, both_ways(inner, network));
  if (network.reduces && t.kind == Collective::all_reduce && groups[0] > 1) sent = t.bytes;
  std::vector<LevelWork> out{
      {network.link, groups[0], sent, network.rate * static_cast<double>(links_used(inner, network))}};
  std::int64_t inside = groups[0];
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const Level& level = network.beyond[i - 1];
    out.push_back({level.link, groups[i], sent_at(t, inside, groups[i]), level.rate});
    inside *= groups[i];
  }
  return out;
}

double seconds(const Transfer& transfer, const Network& network) {
  const Way way = way_of(transfer, network);
  const auto bytes = way.sent.constant();
  return (bytes ? bytes->real() / way.rate : 0) + static_cast<double>(hops(transfer, network)) * network.latency_s;
}

Result<Network> network_of(const Machine& machine) {
  if (machine.links.empty())
    return input_error(fmt::format("machine '{}' has no link on record", machine.name),
                       "give its rate one way: --link 4.5e10");
  const Link& link = machine.links.front();
  Network out{.link = link.name, .topology = link.topology, .rate = link.bandwidth.value};
  if (link.topology && link.count) out.links = std::max<std::int64_t>(1, std::llround(link.count->value));
  if (link.latency) out.latency_s = link.latency->value;
  const auto step = machine.numbers.find("collective_step_s");
  out.step_s = step == machine.numbers.end() || out.latency_s > 0 ? out.latency_s : step->second.value;
  add_levels(out, machine);
  return out;
}

Polynomial bytes_sent(const Transfer& transfer, const std::optional<Topology>& topology, bool both_ways) {
  const std::int64_t n = transfer.devices;
  const Polynomial once = transfer.bytes * Rational(n - 1, n);
  switch (transfer.kind) {
    case Collective::reduce_scatter:
    case Collective::all_gather: return once;
    case Collective::all_reduce: return once * 2;
    case Collective::permute:
      if (straight(topology)) return transfer.bytes;
      return transfer.bytes * (both_ways ? n / 2 : n - 1);
    case Collective::all_to_all: break;
  }
  if (straight(topology)) return once;
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
  return std::min(network.links, (both_ways(transfer, network) ? 2 : 1) * rings_of(transfer, network));
}

void route(std::vector<Work>& work, Network& network) {
  std::int64_t fewest = network.links;
  for (const Work& each : work)
    for (const Transfer& t : each.transfers) fewest = std::min(fewest, links_used(t, network));
  network.links_used = fewest;
  for (Work& each : work) {
    each.bytes_sent = each.load = Polynomial();
    for (const Transfer& t : each.transfers) {
      const Way way = way_of(t, network);
      each.bytes_sent += way.sent;
      each.load += slowed(way, network) + waiting(t, network, network.used_rate());
      if (!way.level.empty()) network.slowest = way.level;
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
  for (const Level& level : network.beyond)
    if (level.link == network.slowest)
      out += fmt::format("; beyond {} chips {}, {} a chip", network.reach, level.link, engineering(level.rate, "B/s"));
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
