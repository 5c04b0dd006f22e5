// Placement of a mesh on a machine's network: the torus axes under each mesh axis, and the mesh axes that leave the
// first link. On TPU v5e, whose pod joins 256 chips, X=125 Y=4 sends along X over the data-center network.
#pragma once

#include <map>
#include <string>

#include "ridge/distributed/layout.h"
#include "ridge/roofline/network.h"

namespace ridge {

struct MeshPlacement {
  std::map<char, std::int64_t> rings;       // Number of torus axes under each mesh axis; empty without a torus
  std::map<char, std::string> outer_links;  // Slowest link of each mesh axis that leaves the first link
  std::string text;                         // "X=16 (4 x 4) Y=4"
};

// Places a mesh on a network with its `rings_per_axis`. A mesh axis takes no more torus axes than its size has factors.
MeshPlacement place_mesh(const Mesh& mesh, Network network);

// Returns "; beyond 256 chips: dcn, 3.125 GB/s per chip", or an empty string if the first link joins the chips.
std::string describe_outer_links(const Network& network, std::int64_t chips);

}  // namespace ridge
