// Mesh sizes of a sharded program that leaves some of them open. Either the sizes stay symbols, and the thresholds are
// solved for above which computation takes longer than communication; or the sizes for a given number of chips are
// searched.
//   x: bf16[B_X, D]  w: bf16[D_X, F]  g[D, F] = w  y: bf16[B_X, F] = x * g
//   2*B*D*F/X FLOPs against 2*D*F*(X - 1)/X bytes: compute-bound for B >= r*(X - 1); B/X >= r suffices for every X
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/distributed/mesh_placement.h"
#include "ridge/distributed/size_intervals.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct MeshChoice {
  Mesh mesh;
  MeshPlacement placement;
  double math_s = 0, memory_s = 0, network_s = 0;
  double slowest_seconds() const;  // the largest of the three times
};

struct SolvedInterval {  // one interval of sizes of the open axes
  SizeInterval interval;
  RoofRates roofs;                         // peak, and the rate of the slowest link in this interval
  Polynomial flops, bytes_sent;            // for one device, with common factors cancelled
  std::vector<Threshold> thresholds = {};  // compute against network: first in the program's dimensions, then in B/X
};

struct MeshSizing {
  std::string program_text, machine, network;
  std::string outer_links = {};                // "; beyond 256 chips: dcn, 3.125 GB/s per chip"
  std::vector<std::string> symbols = {};       // order of symbols in formulas
  std::string open_axes = {};                  // mesh axes without a size, "XYZ"; used as one symbol
  std::vector<SolvedInterval> intervals = {};  // cover all sizes, ascending
  std::vector<MeshChoice> choices = {};        // only if the number of chips is given; the fastest first
};

// With `chips` 0 the sizes stay symbols. Errors: an unsharded program, a mesh with all sizes given, chips outside 2 to
// 65536, open axes that do not always split a tensor axis together; those of `find_size_intervals`.
Result<MeshSizing> solve_mesh_sizes(const Program& program, const Machine& machine, const Bindings& given,
                                    std::int64_t chips);

// Returns every assignment of a torus chip's rings to mesh axes; one empty map without a torus. Each axis gets at least
// one ring if there are enough, and at most the number of rings of two that its size can fill.
std::vector<std::map<char, std::int64_t>> list_ring_assignments(const Mesh& mesh, const Network& network);

}  // namespace ridge
