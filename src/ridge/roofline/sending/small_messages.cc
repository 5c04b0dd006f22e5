#include "ridge/roofline/sending/small_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ridge/base/string_util.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sending/level_work.h"

namespace ridge {
namespace {

std::int64_t count_doublings(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n - 1)); }

std::int64_t count_ones_below(std::int64_t n) {
  std::int64_t out = 0;
  for (std::int64_t i = 1; i < n; ++i) out += std::popcount(static_cast<std::uint64_t>(i));
  return out;
}

// Returns the seconds for V = 1 byte that a tree takes on a level on which a ring takes `ring_seconds`.
double tree_seconds_per_byte(Collective kind, const LevelWork& level, double ring_seconds) {
  if (kind == Collective::all_reduce) return 2 / (static_cast<double>(level.min_devices) * level.rate);
  if (kind != Collective::all_to_all) return ring_seconds;
  return ring_seconds * static_cast<double>(count_ones_below(level.group_size)) /
         static_cast<double>(level.group_size - 1);
}

// Returns the costs for V = 1 byte.
SmallMessages make_costs(const Transfer& transfer, const Network& network) {
  SmallMessages out{transfer.kind, transfer.mesh_axes, transfer.devices, network.step_s};
  const std::int64_t passes = transfer.kind == Collective::all_reduce ? 2 : 1;
  Transfer unit = transfer;
  unit.bytes = Polynomial(1);
  double ring = 0, tree = 0;
  for (const LevelWork& level : count_level_work(unit, network)) {
    if (level.group_size < 2) continue;
    const double seconds = level.bytes_sent.as_constant()->to_double() / level.rate;
    ring = std::max(ring, seconds);
    tree = std::max(tree, tree_seconds_per_byte(transfer.kind, level, seconds));
    out.ring.steps += passes * (level.group_size - 1);
    out.tree.steps += passes * count_doublings(level.group_size);
  }
  out.ring.rate = 1 / ring;
  out.tree.rate = 1 / tree;
  return out;
}

double find_crossing_bytes(const SmallMessages& s) {
  const double saved = static_cast<double>(s.ring.steps - s.tree.steps) * s.step_s;
  if (saved <= 0) return 0;
  const double extra = 1 / s.tree.rate - 1 / s.ring.rate;
  return extra <= 1e-12 / s.ring.rate ? std::numeric_limits<double>::infinity() : saved / extra;
}

}  // namespace

void add_small_messages(std::vector<SmallMessages>& out, const Transfer& transfer, const Network& network) {
  const bool switched_or_direct = network.topology == Topology::switched || network.topology == Topology::direct;
  const bool levels = group_devices(transfer, network).size() > 1;
  if (!switched_or_direct || network.step_s == 0 || transfer.devices < 2 || transfer.kind == Collective::permute)
    return;
  if (levels && transfer.kind == Collective::all_to_all) return;
  if (network.reduces_in_switch && transfer.kind == Collective::all_reduce) return;
  const auto known = [&](const SmallMessages& s) {
    return s.kind == transfer.kind && s.mesh_axes == transfer.mesh_axes;
  };
  if (std::any_of(out.begin(), out.end(), known)) return;
  SmallMessages found = make_costs(transfer, network);
  found.max_tree_bytes = find_crossing_bytes(found);
  out.push_back(std::move(found));
}

std::string describe_small_messages(const SmallMessages& s) {
  const bool twice = s.kind == Collective::all_reduce;
  const auto steps = [&](const LinearCost& cost) {
    return twice ? fmt::format("2 x {}", cost.steps / 2) : std::to_string(cost.steps);
  };
  const std::string what = fmt::format("{}{}{}, small", name(s.kind), s.mesh_axes.empty() ? "" : " over ", s.mesh_axes);
  const std::string tree = fmt::format("a tree ({} step{} of {})", steps(s.tree), s.tree.steps == 1 ? "" : "s",
                                       format_with_prefix(s.step_s, "s"));
  if (s.max_tree_bytes == 0)
    return fmt::format("{}: a ring ({} step{} of {}) at any size", what, steps(s.ring), s.ring.steps == 1 ? "" : "s",
                       format_with_prefix(s.step_s, "s"));
  if (s.is_tree_always_faster()) return fmt::format("{}: {} instead of a ring ({})", what, tree, steps(s.ring));
  return fmt::format("{}: {} below {}, a ring ({}) above", what, tree, format_with_prefix(s.max_tree_bytes, "B"),
                     steps(s.ring));
}

}  // namespace ridge
