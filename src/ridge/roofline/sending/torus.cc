#include "ridge/roofline/sending/torus.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ridge/roofline/network.h"

namespace ridge {
namespace {

std::int64_t count_torus_chips(const Network& network) {
  std::int64_t out = network.chip_stride;
  for (const auto& axis : network.mesh) out *= axis.second;
  return out;
}

// Two chips, and the ends of a line, have only one link along the axis.
TorusAxis make_axis(std::int64_t chips, const Network& network) {
  if (network.topology != Topology::ring || network.links < 2) return {chips, 1, true};
  const bool wraps = chips > 2 && chips >= network.min_ring_chips &&
                     std::max(chips, count_torus_chips(network)) >= network.min_torus_chips;
  return {chips, wraps ? 2 : 1};
}

std::int64_t sum_links(const std::vector<TorusAxis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), std::int64_t{0},
                         [](std::int64_t sum, const TorusAxis& axis) { return sum + axis.links; });
}

std::int64_t sum_hops(const std::vector<TorusAxis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), std::int64_t{0},
                         [](std::int64_t sum, const TorusAxis& axis) { return sum + axis.count_hops(); });
}

bool is_faster(const std::vector<TorusAxis>& a, const std::vector<TorusAxis>& b) {
  const std::int64_t links_a = sum_links(a), links_b = sum_links(b);
  return links_a != links_b ? links_a > links_b : sum_hops(a) < sum_hops(b);
}

// Returns the bytes that cross the links of one axis in an all-to-all, per chip and byte of V.
Rational exchanged_bytes(const TorusAxis& axis) {
  const std::int64_t n = axis.chips;
  return axis.is_one_way ? Rational(n - 1, 2) : Rational(n * n / 4, n);
}

TorusWork count_exchange(const std::vector<TorusAxis>& axes, std::int64_t max_links) {
  TorusWork slowest{.bytes_sent = 0};
  Rational all = 0;
  for (const TorusAxis& axis : axes) {
    const Rational bytes = exchanged_bytes(axis);
    all = all + bytes;
    if (bytes * Rational(slowest.links) > slowest.bytes_sent * Rational(axis.links)) slowest = {bytes, axis.links};
  }
  // More mesh axes than the torus has share its links.
  if (all * Rational(slowest.links) > slowest.bytes_sent * Rational(max_links)) return {all, max_links};
  return slowest;
}

}  // namespace

std::vector<TorusAxis> lay_over_axes(std::int64_t chips, std::int64_t count, const Network& network) {
  std::vector<TorusAxis> best;
  if (chips > 1) best.push_back(make_axis(chips, network));
  if (count < 2) return best;
  for (std::int64_t first = 2; first * first <= chips; ++first) {
    if (chips % first != 0) continue;
    for (const std::int64_t side : {first, chips / first}) {
      std::vector<TorusAxis> laid = lay_over_axes(chips / side, count - 1, network);
      laid.push_back(make_axis(side, network));
      if (is_faster(laid, best)) best = std::move(laid);
    }
  }
  return best;
}

std::vector<TorusAxis> list_torus_axes(const Transfer& transfer, const Network& network) {
  std::vector<TorusAxis> out;
  std::int64_t stride = network.chip_stride, devices = 1;
  for (auto axis = network.mesh.rbegin(); axis != network.mesh.rend(); stride *= (axis++)->second) {
    if (transfer.mesh_axes.find(axis->first) == std::string::npos) continue;
    const std::int64_t reach =
        network.first_link_chips > 0 ? std::max<std::int64_t>(1, network.first_link_chips / stride) : axis->second;
    const auto rings = network.rings_per_axis.find(axis->first);
    const std::int64_t inside = std::min(axis->second, reach);
    devices *= inside;
    for (const TorusAxis& laid :
         lay_over_axes(inside, rings == network.rings_per_axis.end() ? 1 : rings->second, network))
      out.push_back(laid);
  }
  const bool is_one_ring = network.topology != Topology::ring || network.links < 2;
  if (devices == transfer.devices && !is_one_ring) return out;
  return lay_over_axes(transfer.devices, 1, network);
}

TorusWork count_torus_work(Collective kind, const std::vector<TorusAxis>& axes, std::int64_t max_links) {
  if (axes.empty()) return {.bytes_sent = 0};
  std::int64_t n = 1;
  for (const TorusAxis& axis : axes) n *= axis.chips;
  TorusWork out;
  switch (kind) {
    case Collective::all_to_all: return count_exchange(axes, max_links);
    case Collective::permute: out = count_exchange(axes, max_links); return {out.bytes_sent * 2, out.links};
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::all_gather: break;
  }
  const Rational once(n - 1, n);
  return {kind == Collective::all_reduce ? once * 2 : once, std::min(max_links, sum_links(axes))};
}

std::string describe_axes(const Network& network) {
  if (network.mesh.empty()) return "a torus";
  std::string rings, lines;
  for (const auto& [letter, size] : network.mesh) {
    const auto given = network.rings_per_axis.find(letter);
    const auto axes = lay_over_axes(size, given == network.rings_per_axis.end() ? 1 : given->second, network);
    if (axes.empty()) continue;
    const bool has_ring = std::any_of(axes.begin(), axes.end(), [](const TorusAxis& axis) { return axis.links == 2; });
    std::string& names = has_ring ? rings : lines;
    names += names.empty() ? std::string(1, letter) : fmt::format(" and {}", letter);
  }
  if (lines.empty()) return "a ring along each mesh axis, both ways";
  if (rings.empty()) return "a line along each mesh axis";
  return fmt::format("a ring along {}, both ways, a line along {}", rings, lines);
}

std::string suggest_wider_shape(const Network& network) {
  std::int64_t chips = 1;
  for (const auto& [letter, size] : network.mesh)
    if (size > 1 && std::exchange(chips, size) > 1) return "";
  const std::vector<TorusAxis> one = lay_over_axes(chips, 1, network),
                               several = lay_over_axes(chips, network.links / 2, network);
  if (network.topology != Topology::ring || sum_links(several) <= sum_links(one)) return "";
  std::string sizes, mesh;
  for (std::size_t i = 0; i < several.size(); ++i) {
    sizes += fmt::format("{}{}", i == 0 ? "" : " x ", several[i].chips);
    mesh += fmt::format("{}{} = {}", i == 0 ? "" : ", ", static_cast<char>('X' + i), several[i].chips);
  }
  return fmt::format("{} chips along one axis use {} link{} of {}, as {} they use {} (mesh {})", chips, sum_links(one),
                     sum_links(one) == 1 ? "" : "s", network.link, sizes, sum_links(several), mesh);
}

}  // namespace ridge
