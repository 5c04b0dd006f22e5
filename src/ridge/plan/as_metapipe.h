// Maps a program onto a reconfigurable dataflow chip: every statement becomes a stage, the rows of the result stream
// through in tiles, what a statement hands to a later one is an N-buffer, and tensors without rows (weights) stay in
// the memory units or, where they do not fit, are read again for every tile. simulate/placement.h then gives the units
// out.
//   g[B, F] = x * gate; u[B, F] = x * up; h[B, F] = silu(g) * u; y[B, D] = h * down
//   rows B = 256 in tiles of 16: load, g, u, h, y, store; g waits for u one stage longer, so it has three tiles
//
// A PCU does element-wise operations at its matrix rate here, which flatters them; no other rate is published.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/simulate/looping.h"
#include "ridge/simulate/metapipe_clock.h"
#include "ridge/simulate/placement.h"

namespace ridge {

struct MappingOptions {
  std::int64_t tile = 0;    // rows of a tile; 0: the largest power of two of which no tensor's tile exceeds a PMU
  std::int64_t layers = 1;  // the program this often, one after the other, with other weights
  double sync_seconds = 0;  // a call; unpublished, so it is the caller's
};

struct CallingTime {
  Calling calling = Calling::kernel_by_kernel;
  std::int64_t calls = 0;
  double bytes = 0;  // off chip
  double sync_seconds = 0;
  double seconds = 0;  // all of it
};

struct MappedProgram {
  std::string program, fabric;
  std::string rows;  // the dimension that streams
  std::int64_t extent = 0, tile = 0, tiles = 0, layers = 1;
  std::int64_t weight_bytes = 0, weight_pmus = 0;
  bool weights_stay = true;  // in the memory units, for all tiles
  Placement placement;
  MetapipeRun run;          // one layer, on the clock; nanoseconds
  double load_seconds = 0;  // of the weights that stay, before the first tile
  std::array<CallingTime, 3> calling;
};

// Errors: a dimension without a value, counts below 1, a result without rows, a statement that lacks them, more tiles
// than the clock takes.
Result<MappedProgram> as_metapipe(const Program& program, const Bindings& given, const Fabric& fabric,
                                  const MappingOptions& options = {});

}  // namespace ridge
