#include "ridge/roofline/sending/small_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ridge/base/text.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sizes/levels.h"

namespace ridge {
namespace {

std::int64_t doublings(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n - 1)); }

std::int64_t ones_below(std::int64_t n) {
  std::int64_t out = 0;
  for (std::int64_t i = 1; i < n; ++i) out += std::popcount(static_cast<std::uint64_t>(i));
  return out;
}

// How many times the bytes that the ring sends at a level the tree does.
double more_bytes(Collective kind, std::int64_t members) {
  const auto n = static_cast<double>(members);
  if (kind == Collective::all_reduce) return n / (n - 1);
  if (kind == Collective::all_to_all) return static_cast<double>(ones_below(members)) / (n - 1);
  return 1;
}

// Of V = 1 B; what a switch adds up itself waits for no steps.
SmallMessages lines_of(const Transfer& transfer, const Network& network) {
  SmallMessages out{transfer.kind, transfer.over, transfer.devices, network.step_s};
  const std::int64_t passes = transfer.kind == Collective::all_reduce ? 2 : 1;
  Transfer unit = transfer;
  unit.bytes = Polynomial(1);
  double ring = 0, tree = 0;
  for (const LevelWork& level : levels_of(unit, network)) {
    if (level.members < 2) continue;
    const double seconds = level.sent.constant()->real() / level.rate;
    ring = std::max(ring, seconds);
    tree = std::max(tree, seconds * more_bytes(transfer.kind, level.members));
    out.ring.steps += passes * (level.members - 1);
    out.tree.steps += passes * doublings(level.members);
  }
  out.ring.rate = 1 / ring;
  out.tree.rate = 1 / tree;
  return out;
}

double crossing(const SmallMessages& s) {
  const double saved = static_cast<double>(s.ring.steps - s.tree.steps) * s.step_s;
  if (saved <= 0) return 0;
  const double more = 1 / s.tree.rate - 1 / s.ring.rate;
  return more <= 1e-12 / s.ring.rate ? std::numeric_limits<double>::infinity() : saved / more;
}

}  // namespace

void add_small_messages(std::vector<SmallMessages>& out, const Transfer& transfer, const Network& network) {
  const bool straight = network.topology == Topology::switched || network.topology == Topology::direct;
  const bool levels = members(transfer, network).size() > 1;
  if (!straight || network.step_s == 0 || transfer.devices < 2 || transfer.kind == Collective::permute) return;
  if (levels && transfer.kind == Collective::all_to_all) return;
  if (network.reduces && transfer.kind == Collective::all_reduce) return;
  const auto known = [&](const SmallMessages& s) { return s.kind == transfer.kind && s.over == transfer.over; };
  if (std::any_of(out.begin(), out.end(), known)) return;
  SmallMessages found = lines_of(transfer, network);
  found.tree_below = crossing(found);
  out.push_back(std::move(found));
}

std::string text(const SmallMessages& s) {
  const bool twice = s.kind == Collective::all_reduce;
  const auto steps = [&](const StraightLine& line) {
    return twice ? fmt::format("2 x {}", line.steps / 2) : std::to_string(line.steps);
  };
  const std::string what = fmt::format("{}{}{}, small", name(s.kind), s.over.empty() ? "" : " over ", s.over);
  const std::string tree = fmt::format("up a tree ({} step{} of {})", steps(s.tree), s.tree.steps == 1 ? "" : "s",
                                       engineering(s.step_s, "s"));
  if (s.tree_below == 0)
    return fmt::format("{}: round a ring ({} step{} of {}), whatever the bytes", what, steps(s.ring),
                       s.ring.steps == 1 ? "" : "s", engineering(s.step_s, "s"));
  if (s.always()) return fmt::format("{}: {} rather than round a ring ({})", what, tree, steps(s.ring));
  return fmt::format("{}: {} below {}, round a ring ({}) above", what, tree, engineering(s.tree_below, "B"),
                     steps(s.ring));
}

}  // namespace ridge
