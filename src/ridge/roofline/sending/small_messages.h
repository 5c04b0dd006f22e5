// The number of steps, not the links' rate, limits small collectives. Consider n devices of which each pair is one step
// away (a switch, or a link to each), a seconds per step however few its bytes, w B/s of links per device, and L =
// ceil(log2 n):
//                                ring                             tree
//   all-gather, reduce-scatter   (n - 1)*a + V*(n - 1)/n/w        L*a + V*(n - 1)/n/w    data doubles in each step
//   all-reduce                   2*(n - 1)*a + 2*V*(n - 1)/n/w    2*L*a + 2*V/w          two trees, V/2 on each
//   all-to-all                   (n - 1)*a + V*(n - 1)/n/w        L*a + V*P/n/w          P: one bits in 1..n-1
// (Doubling: Bruck et al., 1997; two trees: Sanders, Speck, Traeff, 2009.) Times are linear in V, so tree and ring
// cross once, for an all-reduce at V = n*(n - 1 - L)*a*w. The levels of a network add up their steps, and the slowest
// level sends. On a torus, messages of a tree cross the same number of links as those of a ring, so a tree is never
// faster.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ridge/roofline/work.h"

namespace ridge {

struct Network;

struct LinearCost {  // Seconds: steps*a + V/rate
  std::int64_t steps = 0;
  double rate = 0;  // Bytes of V per second
};

struct SmallMessages {
  Collective kind = Collective::all_gather;
  std::string mesh_axes;     // Mesh axes
  std::int64_t devices = 1;  // n
  double step_s = 0;         // a, seconds of a step
  LinearCost ring = {}, tree = {};
  // V in bytes below which the tree is faster; 0 if it never is, infinite if it always is.
  double max_tree_bytes = 0;
  double ring_seconds(double bytes) const { return static_cast<double>(ring.steps) * step_s + bytes / ring.rate; }
  double tree_seconds(double bytes) const { return static_cast<double>(tree.steps) * step_s + bytes / tree.rate; }
  bool is_tree_always_faster() const { return max_tree_bytes == std::numeric_limits<double>::infinity(); }
};

// Appends nothing for a torus, an unknown step time, a permutation, an all-to-all over several levels, or a collective
// over mesh axes that `out` already has.
void add_small_messages(std::vector<SmallMessages>& out, const Transfer& transfer, const Network& network);

// "all-reduce over X, small: a tree (2 x 3 steps of 816 ns) below 14.69 MB, a ring (2 x 7) above"
std::string describe_small_messages(const SmallMessages& small);

}  // namespace ridge
