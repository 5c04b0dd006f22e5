// Maps a program onto a reconfigurable dataflow chip. Every statement becomes a stage, the rows of the result stream
// through in tiles, and N-buffers connect the stages. Tensors without rows (weights) stay in the memory units, or are
// read again for every tile if they do not fit. simulate/stage_placement.h then assigns the units. A program that
// cannot stream as one pipe becomes several passes that run in sequence (`split_into_passes`) and communicate through
// memory.
//   g[B, F] = x * gate; u[B, F] = x * up; h[B, F] = silu(g) * u; y[B, D] = h * down
//   rows B = 256 in tiles of 16: load, g, u, h, y, store; g is buffered one stage longer than u, so it has three tiles
//
// With an inner dimension, the statements that have it become a nested pipe, which loads its tiles of weights again for
// every tile of rows. C[M, N] = A * B with rows M and inner N is a tiled matmul. Attention with rows S and inner T is
// FlashAttention: the softmax over T is computed online, and sums over T are rescaled for every tile.
//
// Elementwise operations are assumed to run at a PCU's matrix rate, which is optimistic; no other rate is published.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/simulate/call_overhead.h"
#include "ridge/simulate/metapipe_simulator.h"
#include "ridge/simulate/stage_placement.h"

namespace ridge {

// Splits a program into passes: sets of statements that share one pipe because tiles of a common dimension stream
// through all of them. A statement belongs if its result has that dimension and it needs only the current tile; or if
// it sums over the dimension and nothing in the pass reads the sum, which is complete only at the end.
//   s[S, T] = q * k; p[S, T] = softmax(s over T); o[S, E] = p * v      one pass along S
//   preceded by k[T, E] = c * wk                                       a pass along T, then one along S
//   sigma[C, E] = d * e, d[R, C] and e[R, E]                           one pass along R: sigma is its sum
struct StreamingPass {
  std::string streamed_dim;     // dimension that streams; empty if everything is one tile
  std::vector<int> statements;  // indices into Program::statements, in order
};

// A statement streams along a dimension not at all, tile by tile, or as a sum over all tiles.
enum class StreamMode { none, tiles, sum };
StreamMode stream_mode(const Program& program, const Statement& statement, const std::string& dim);

// Returns the passes in execution order. Each pass takes the dimension that leaves the fewest statements to earlier
// passes; ties go to the dimension that most results have, then the longest in `sizes`, then the first of the result.
std::vector<StreamingPass> split_into_passes(const Program& program, const Bindings& sizes = {});

struct MappingOptions {
  std::int64_t tile = 0;                   // rows per tile; 0 selects a power of two: see `map_pass_to_pipe`
  std::string inner = "";                  // "N=64" adds a nested pipe in tiles of 64 along N
  std::vector<std::string> par = {};       // "c=4" gives the stage that computes c 4 PCUs (row_par)
  std::vector<std::string> buffer = {};    // "c=3" gives its output buffer 3 tiles
  std::string schedule = "pipelined";      // schedule of every loop
  std::int64_t layers = 1;                 // number of layers: sequential copies of the program with their own weights
  std::vector<double> sync_seconds = {0};  // cost of a call; unpublished, so the caller sets it; one report each
};

struct MappedPass {
  std::string streamed_dim;  // dimension that streams; empty if everything is one tile
  std::int64_t extent = 1, tile = 1, tiles = 1;
  std::string inner_dim;  // dimension of the nested pipe; empty if there is none
  std::int64_t inner_tile = 0, inner_tiles = 0;
  std::int64_t weight_bytes = 0, weight_pmus = 0;
  bool weights_resident = true;     // true if the weights stay in the memory units for all tiles
  std::int64_t streamed_bytes = 0;  // bytes of streamed inputs and outputs, and of sums stored at the end
  std::int64_t inner_bytes = 0;     // bytes that the nested pipe reads, over all tiles of rows
  Placement placement;
  MetapipeRun run;                 // simulated run of one layer, in nanoseconds
  std::int64_t sequential_ns = 0;  // nanoseconds if the stages of each tile run one at a time
  double load_seconds = 0;         // time to load the resident weights before the first tile
  double off_chip_bytes() const;   // off-chip traffic of one layer
};

struct MappedProgram {
  std::string program, fabric, schedule;
  std::int64_t layers = 1;
  std::vector<MappedPass> passes;
  std::vector<CallModeReport> launch_modes;  // one report for each of `sync_seconds`
};

// Returns the simulated passes. Errors: a dimension without a value, counts below 1, a stage or dimension that the
// program lacks, more tiles than the simulator takes, a sharded program.
Result<MappedProgram> map_to_metapipe(const Program& program, const Bindings& given, const Fabric& fabric,
                                      const MappingOptions& options = {});

// Maps one pass of a program to a pipe on a chip: selects the tile size, the tensors that stream, stay or are read
// again, and the loop of each statement, and simulates the result. Internal to plan/.
struct PassContext {
  const Program& program;
  const Bindings& dims;  // value of every dimension
  const Fabric& fabric;
  std::int64_t tile = 0;
  std::string inner_dim;
  std::int64_t inner_tile = 0;
  std::map<std::string, std::int64_t> par, buffer;  // by name of the result
  PipeSchedule schedule = PipeSchedule::pipelined;
  std::vector<double> flops;  // operations of each statement
};

// Takes the given tile. Otherwise it takes the largest power of two whose tiles fit in a PMU, or, if weights are read
// again for every tile, the fastest of that and the larger ones that fit on the chip.
Result<MappedPass> map_pass_to_pipe(const PassContext& context, const StreamingPass& pass);

}  // namespace ridge
