// Few bytes wait for steps rather than for links. A collective over n devices of which each pair is one step apart (by
// a switch or a link to each), where a step takes a seconds however few bytes it brings, a device's links pass w B/s,
// and L = ceil(log2 n):
//                                ring                             tree
//   all-gather, reduce-scatter   (n - 1)*a + V*(n - 1)/n/w        L*a + V*(n - 1)/n/w    a step doubles what a device
//   has all-reduce                   2*(n - 1)*a + 2*V*(n - 1)/n/w    2*L*a + 2*V/w          up and down two trees,
//   half on each all-to-all                   (n - 1)*a + V*(n - 1)/n/w        L*a + V*P/n/w          P: ones in the
//   numbers below n
// (doubling: Bruck and others, 1997; two trees: Sanders, Speck, Traeff, 2009.) Each is a straight line in V, so that
// tree and ring cross once, an all-reduce's at V = n*(n - 1 - L)*a*w. Over several levels of a network each has its
// steps, and the slowest sends. On a torus a tree's messages pass as many links as a ring's, and it is never faster.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ridge/roofline/work.h"

namespace ridge {

struct Network;

struct StraightLine {  // steps*a + V/rate, s
  std::int64_t steps = 0;
  double rate = 0;  // B of V a second
};

struct SmallMessages {
  Collective kind = Collective::all_gather;
  std::string over;          // mesh axes
  std::int64_t devices = 1;  // n
  double step_s = 0;         // a
  StraightLine ring = {}, tree = {};
  // V below which the tree is faster, B; 0: it never is; infinite: it always is.
  double tree_below = 0;
  double ring_s(double bytes) const { return static_cast<double>(ring.steps) * step_s + bytes / ring.rate; }
  double tree_s(double bytes) const { return static_cast<double>(tree.steps) * step_s + bytes / tree.rate; }
  bool always() const { return tree_below == std::numeric_limits<double>::infinity(); }
};

// Appends nothing where it has nothing to say: a torus, a step that is not on record, a permutation, an all-to-all over
// several levels; of those that are there, by kind and mesh axes, one.
void add_small_messages(std::vector<SmallMessages>& out, const Transfer& transfer, const Network& network);

// "all-reduce over X, small: up a tree (2 x 3 steps of 816 ns) below 14.69 MB, round a ring (2 x 7) above"
std::string text(const SmallMessages& small);

}  // namespace ridge
