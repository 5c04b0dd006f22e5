// Maps a program onto a reconfigurable dataflow chip: every statement becomes a stage, the rows of the result stream
// through in tiles, what a statement hands to a later one is an N-buffer, and tensors without rows (weights) stay in
// the memory units or, where they do not fit, are read again for every tile. simulate/placement.h then gives the units
// out. A program that cannot stream as one becomes several passes, one after the other (passes.h); what they hand on
// goes through memory.
//   g[B, F] = x * gate; u[B, F] = x * up; h[B, F] = silu(g) * u; y[B, D] = h * down
//   rows B = 256 in tiles of 16: load, g, u, h, y, store; g waits for u one stage longer, so it has three tiles
//
// With an inner dimension the statements that have it become a pipe within the pipe: its tiles of weights are loaded
// within, again for every tile of rows. C[M, N] = A * B with rows M and inner N is a tiled matmul; attention
// with rows S and inner T is FlashAttention: the softmax over T goes on line, and what sums over T is scaled again for
// every tile.
//
// A PCU does element-wise operations at its matrix rate here, which flatters them; no other rate is published.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/plan/passes.h"
#include "ridge/program/program.h"
#include "ridge/simulate/looping.h"
#include "ridge/simulate/metapipe_clock.h"
#include "ridge/simulate/placement.h"

namespace ridge {

struct MappingOptions {
  std::int64_t tile = 0;   // rows of a tile; 0: the largest power of two of which no tensor's tile exceeds a PMU
  std::string inner = "";  // "N=64": a pipe within the pipe, in tiles of 64 along N
  std::vector<std::string> par = {};       // "c=4": as many PCUs for the stage that makes c (row_par)
  std::vector<std::string> buffer = {};    // "c=3": as many tiles in the buffer that it writes
  std::string schedule = "pipelined";      // of every loop
  std::int64_t layers = 1;                 // the program this often, one after the other, with other weights
  std::vector<double> sync_seconds = {0};  // a call; unpublished, so it is the caller's: a report for each
};

struct MappedPass {
  std::string rows;  // the dimension that streams; empty: everything is one tile
  std::int64_t extent = 1, tile = 1, tiles = 1;
  std::string inner;  // empty: no pipe within
  std::int64_t inner_tile = 0, inner_tiles = 0;
  std::int64_t weight_bytes = 0, weight_pmus = 0;
  bool weights_stay = true;         // in the memory units, for all tiles
  std::int64_t streamed_bytes = 0;  // what enters and leaves with the rows, and sums that leave at the end
  std::int64_t inner_bytes = 0;     // read by the inner pipe, over all tiles of rows
  Placement placement;
  MetapipeRun run;              // one layer, on the clock; nanoseconds
  std::int64_t sequential = 0;  // nanoseconds, with every stage in its turn
  double load_seconds = 0;      // of the weights that stay, before the first tile
  double bytes() const;         // off chip, of one layer
};

struct MappedProgram {
  std::string program, fabric, schedule;
  std::int64_t layers = 1;
  std::vector<MappedPass> passes;
  std::vector<CallingReport> calling;  // one for each of sync_seconds
};

// Errors: a dimension without a value, counts below 1, a stage or dimension that the program lacks, more tiles than the
// clock takes, a sharded program.
Result<MappedProgram> as_metapipe(const Program& program, const Bindings& given, const Fabric& fabric,
                                  const MappingOptions& options = {});

}  // namespace ridge
