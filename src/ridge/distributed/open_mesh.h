// A sharded program whose mesh sizes are not said. Either they stay symbols, and what is solved for is from which size
// on its products take longer than what they send; or they are searched for, so many chips in all.
//   x: bf16[B_X, D]  w: bf16[D_X, F]  g[D, F] = w  y: bf16[B_X, F] = x * g
//   2*B*D*F/X FLOPs against 2*D*F*(X - 1)/X bytes: compute for B >= r*(X - 1), B/X >= r*(X - 1)/X, r whatever X is
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/distributed/layout.h"
#include "ridge/distributed/stretches.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct MeshChoice {
  Mesh mesh;
  std::map<char, std::int64_t> rings;  // of a chip's, each axis'; empty: no torus
  double math_s = 0, memory_s = 0, network_s = 0;
  double seconds() const;  // of the slowest
};

struct OpenStretch {  // of sizes of the open axes
  Stretch stretch;
  Roofs roofs;                             // peak, and the rate of the links that are slowest here
  Polynomial flops, sent;                  // of a device, without what both have
  std::vector<Threshold> thresholds = {};  // compute against network, in the program's dimensions and then in B/X
};

struct OpenMesh {
  std::string program_text, machine, network;
  std::vector<std::string> order = {};      // of symbols, for formulas
  std::string axes = {};                    // the open ones: "XYZ", a symbol in what follows
  std::vector<OpenStretch> stretches = {};  // of all sizes, in order
  std::vector<MeshChoice> choices = {};     // where chips were said: the fastest first
};

// `chips` 0: sizes stay symbols. Errors: of the program and the machine; of kind usage: a program that is not sharded
// or whose mesh has all its sizes, chips outside 2 to 65536; open axes that do not always stand together; stretches()'.
Result<OpenMesh> open_mesh(const Program& program, const Machine& machine, const Bindings& given, std::int64_t chips);

// Every way to give a chip's rings to mesh axes (search over a torus); one empty map where there is no torus.
std::vector<std::map<char, std::int64_t>> rings_of(const Mesh& mesh, const Network& network);

}  // namespace ridge
