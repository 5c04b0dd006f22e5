// What must move so that a tensor lies otherwise: derived, axis by axis of the mesh, from where it cuts the tensor now
// and where it shall.
//   now        then           what it takes over that mesh axis
//   addends    nothing        all-reduce
//   addends    cuts d         reduce-scatter along d
//   cuts d     nothing        all-gather along d
//   cuts d     cuts e         all-to-all from d to e
//   nothing    cuts d         each device drops what is not its part: nothing moves
// and where mesh axes that cut one axis of the tensor stand in another order, devices swap their blocks: a permutation.
// Addends are scattered first, while everything is large but nothing is copied; then parts are dropped and exchanged,
// and what is gathered is gathered last.
#pragma once

#include <string>
#include <vector>

#include "ridge/distributed/layout.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct Move {
  std::optional<Collective> kind = {};  // none: parts are dropped
  std::string over;                     // mesh axes
  Layout before, after;
};
// Both of one tensor; `then` has no addends that `now` lacks.
std::vector<Move> moves(const Layout& now, const Layout& then);

// Words that cross from device to device, over the whole mesh: what a device holds afterwards and did not before, each
// once; of n addends n - 1 for each word of their sum, which an all-reduce sends once more.
std::int64_t words_moved(const Move& move, const std::vector<std::int64_t>& extents, const Mesh& mesh);

// The same as roofline/network.h prices it, of the device with the largest block. None: nothing moves.
std::optional<Transfer> transfer_of(const Move& move, const std::vector<std::int64_t>& extents, const Mesh& mesh,
                                    Rational word_bytes);

}  // namespace ridge
