// Intervals of a symbolic mesh size n in which a device's FLOPs and bytes are each one formula in n. The formula
// changes with the network: two devices share one link of a ring, a line becomes a ring from some length on, slower
// links connect nodes, a spine connects leaf switches. Example:
//   nodes of 8 at 450 GB/s a chip, connected at 50:   all-gather of V bytes
//     n <= 8                        V*(n - 1)/n over nvlink
//     n = 16, 24, 32                V*7/8 over nvlink, which takes longer than the chip's share of the scaleout traffic
//     n = 40, 48, …                 V*(n - 8)/(8*n) over scaleout
// Beyond one node, n is a multiple of a node's devices; other sizes would make the shards uneven.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"
#include "ridge/roofline/network.h"

namespace ridge {

struct SizeInterval {
  std::int64_t from = 2, to = 0, step = 1;  // n = from, from + step, … up to `to`; unlimited if `to` is 0
  std::string link = {};                    // slowest link level of the first transfer
  double rate = 0;                          // B/s for each device on `link`, one way
  std::vector<std::int64_t> shape = {};     // Sizes of all open axes but the last; empty for a single axis and for pods
  // FLOPs of contractions, and bytes sent. Bytes on other links are scaled to the bytes that `link` sends in the same
  // time. Both are multiplied by the same power of n.
  Polynomial flops = {}, bytes_sent = {};
};

// Returns the intervals in ascending order. `axes` are the mesh axes whose product is n; `fixed` has the sizes of the
// others. Input errors: the bytes sent have no closed form in n; a fixed axis is between those of `axes`, or does not
// divide a node; more than 16 intervals.
Result<std::vector<SizeInterval>> find_size_intervals(const Program& program, Network network, const std::string& axes,
                                                      const Bindings& fixed);

// "X = 16, 24, … 32"; "XYZ = 64, 80, … 8960 as 4 x 4 x XYZ/16"
std::string format_sizes(const SizeInterval& interval, const std::string& axes);

}  // namespace ridge
