#include "ridge/plan/h200.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {
namespace {

// What counts against a candidate, as shares; the one that grew most over the winner's is told.
struct Costs {
  double idle;    // of the multiprocessors in the last wave
  double beyond;  // of what is computed, outside D
  double loads;   // bytes into shared memory for each that is multiplied
};
Costs costs(const Tiled& x) {
  const ops::MatmulConfig& c = x.config;
  const double tiles = static_cast<double>(x.tiles), waves = static_cast<double>(x.waves);
  return {1 - tiles * x.pieces / (waves * h200::multiprocessors), 1 - x.sums / (tiles * c.m * c.n),
          static_cast<double>(c.m + c.n) / (c.m * c.n) * 64};
}

}  // namespace

std::string why_slower(const Tiled& best, const Tiled& loser) {
  const Costs a = costs(best), b = costs(loser);
  if (loser.pieces > best.pieces)
    return fmt::format("adds {} pieces of the sum where {} do", loser.pieces, best.pieces);
  const double idle = b.idle - a.idle, beyond = b.beyond - a.beyond, loads = b.loads / a.loads - 1;
  if (beyond > std::max(idle, loads) && beyond > 0.01)
    return fmt::format("{:.0f} % of what it computes lies beyond the edges, where the winner's is {:.0f} %",
                       100 * b.beyond, 100 * a.beyond);
  if (idle > loads && idle > 0.01)
    return fmt::format("{} wave{} with {:.0f} % idle, where the winner idles {:.0f} %", loser.waves,
                       loser.waves == 1 ? "" : "s", 100 * b.idle, 100 * a.idle);
  if (loads > 0.01) return fmt::format("loads {:.0f} % more for each product", 100 * loads);
  if (loser.pieces < best.pieces)
    return fmt::format("one block walks {} times as much of k", best.pieces / std::max(loser.pieces, 1));
  return "nearly the same: fixed costs decide";
}

}  // namespace ridge
