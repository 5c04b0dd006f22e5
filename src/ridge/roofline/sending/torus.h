// A torus: the axes that a collective runs along are rings, lines or one ring that is used one way. Over several axes
// of n_i chips the data is divided. Each part goes along all axes, one after another, in an order of its own, so that
// all axes are busy all the time. Let a chip at the end of the lines use l_i links of axis i: two of a ring, one of a
// line or of two chips. With N = n_1*n_2*…, links of rate w and parts of the right sizes:
//   all-gather, reduce-scatter   V*(N - 1)/N / ((l_1 + l_2 + …)*w)
// No schedule is faster: the chip receives N - 1 of N parts. Parts of such sizes exist because an axis order with the
// axes S first sends V/N*(product of S - 1) along them, and (product of S - 1)/(links of S) grows with S.
//   all-to-all                   V*max_i(floor(n_i^2/4)/n_i/l_i)/w: half of the data crosses the middle of the axis
//   permute, at most             twice that: to a random chip, and from there to the destination (Valiant, 1982)
// 2 x 8 chips, the axis of 8 a ring: 1 + 2 links, an all-gather of V takes 15/16*V/(3*w).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/roofline/work.h"
#include "ridge/symbol/rational.h"

namespace ridge {

struct Network;

struct TorusAxis {
  std::int64_t chips = 1;
  std::int64_t links = 1;  // Links of the chip with the fewest along the axis
  bool is_one_way = false;
  std::int64_t count_hops() const { return links == 2 ? chips / 2 : chips - 1; }
};

// Returns the axes with more than one chip. A mesh axis with several of a chip's rings is laid over as many axes of the
// torus, 16 chips over 4 x 4.
std::vector<TorusAxis> list_torus_axes(const Transfer& transfer, const Network& network);

// Returns the fastest torus axes for a mesh axis of `chips` over `count` axes: the most links, then the fewest hops.
std::vector<TorusAxis> lay_over_axes(std::int64_t chips, std::int64_t count, const Network& network);

// Bytes that a chip sends over `links` of its links, for each byte of V.
struct TorusWork {
  Rational bytes_sent;
  std::int64_t links = 1;
};
TorusWork count_torus_work(Collective kind, const std::vector<TorusAxis>& axes, std::int64_t max_links);

// "a ring along X, both ways, a line along Y"; "a torus" without a mesh
std::string describe_axes(const Network& network);

// Returns a remark if all chips are along one mesh axis and several axes would use more links, otherwise "": "256 chips
// along one axis use 2 links of ici, as 16 x 16 they use 4 (mesh X = 16, Y = 16)".
std::string suggest_wider_shape(const Network& network);

}  // namespace ridge
