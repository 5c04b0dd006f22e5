// In how many chunks a pair of acts goes, and whether it does, by what is predicted of both ways.
#pragma once

#include <optional>
#include <string>

#include "ridge/machine/machine.h"
#include "ridge/measure/ranks/chunks.h"
#include "ridge/measure/ranks/part.h"
#include "ridge/measure/ranks/reach.h"

namespace ridge::ranks {

struct ChunkTimes {         // s, as predicted
  std::int64_t chunks = 0;  // of a piece; 0: one act after the other is faster
  bool one_kernel = false;  // goes through all chunks; else each is multiplied by its own
  bool stores = false;      // and stores sums where their ranks want them; else the copy engine sends them on
  Runs runs;                // in which it does
  double in_chunks = 0, in_turn = 0;
  double computing = 0;  // alone
  // What is seen of the move; none: a step that nobody predicts.
  std::optional<double> moving() const {
    if (in_turn == 0) return std::nullopt;
    return (chunks > 0 ? in_chunks : in_turn) - computing;
  }
};

struct ChunkQuestion {
  const Part& part;
  const ChunkedPair& pair;
  const Machine& machine;  // in turn: what a library was timed to take on its links
  const RunOptions& options;
  Chunks how;
  int rank = 0;                         // that asks
  Links links;                          // between the devices, as they were measured
  std::optional<double> moving_s = {};  // the move alone, where it was timed
};
// Where a step has no forecast one act goes after the other. Errors: plan()'s, no device.
Result<ChunkTimes> chunk_times(const ChunkQuestion& question);

// What a library was timed to take for a shift on the machine's links; none: it was not, or nothing moves.
std::optional<double> library_time(const Machine& machine, const Part& part, std::size_t act);

// The pair's product, of which one kernel goes through all chunks (chunks.h, walk): the first step of what is planned,
// which alone reads what is gathered, or the last, whose sums are scattered. How this rank's walks, which knows neither
// words nor places yet, and how long the product takes. None: no kernel does.
struct OneKernel {
  ops::RowWalk walk;
  double seconds = 0;
  double waves = 1;  // of tiles, of a piece
};
std::optional<OneKernel> one_kernel(const ChunkQuestion& question, const Plan& planned, std::int64_t chunks);

std::int64_t row_bytes(const Part& part, const ChunkedPair& pair);  // of what moves; 0: it has no rows

// "y beside reduce-scatter over X: 300.0 us predicted in 2 chunks of each piece along B, one kernel, 402.1 us in turn"
std::string text(const Acts& acts, const ChunkedPair& pair, const ChunkTimes& times);

}  // namespace ridge::ranks
