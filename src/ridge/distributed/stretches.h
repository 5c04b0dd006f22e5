// A mesh axis whose size n stays a symbol, on a network whose links do not treat every n alike: two neighbours share
// one link of a ring, a line closes from some length on, nodes are joined by slower links, leaves by a spine. What a
// device computes and sends is one formula in n on each of a few stretches:
//   nodes of 8 at 450 GB/s a chip, joined at 50:   all-gather of V bytes
//     n <= 8                        V*(n - 1)/n over nvlink
//     n = 16, 24, 32                V*7/8 over nvlink: an eighth of what the other nodes bring takes less
//     n = 40, 48, …                 V*(n - 8)/(8*n) over scaleout
// Beyond one node, n is a multiple of a node's devices: with a part of a node more, parts are uneven.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"
#include "ridge/roofline/network.h"

namespace ridge {

struct Stretch {
  std::int64_t from = 2, to = 0, step = 1;  // n = from, from + step, … up to `to`; 0: and so on
  std::string link;                         // that is slowest for what is sent first
  double rate = 0;                          // B/s of a device there, one way
  // FLOP of contractions and B sent, what other links send as the bytes that `link` passes meanwhile; both times the
  // same power of n.
  Polynomial flops = {}, sent = {};
};

// In order. `axes`: those of the mesh that always stand together, their product is n; `fixed`: sizes of the others.
// Errors, of kind input: what is sent has no closed form in n; a fixed axis stands between those of `axes`, or does not
// divide a node; more than 16 stretches.
Result<std::vector<Stretch>> stretches(const Program& program, Network network, const std::string& axes,
                                       const Bindings& fixed);

// "X = 16, 24, … 32"
std::string sizes_text(const Stretch& stretch, const std::string& axes);

}  // namespace ridge
