// Runs a sharded program on ranks, each one device of the mesh: the protocol and the check of measure/run.h, with every
// rank in step. Inputs are those of one device with the same seed, cut; a rank's share of time is what it computes,
// what moves take, and how long it waits for others before them. Rank 0 gathers what is checked and written.
#pragma once

#include "ridge/measure/ranks/chunks.h"
#include "ridge/measure/run.h"
#include "ridge/transport/nccl.h"
#include "ridge/transport/ranks.h"

namespace ridge::ranks {

struct Task {
  const Program& program;          // sharded; one that is not is run by one rank
  const Explanation& explanation;  // of one device of the mesh
  double words_bound = 0;          // RanksNotes'
  std::string nccl = {};           // on devices: its library's file; empty: the system's
  // On devices: which products go in chunks beside what moves, of those that can.
  Chunks chunks = {};
  bool checked = true;  // false: results are not looked at
  // On devices: those of these ranks as another run joined them; null: run() joins them.
  std::shared_ptr<const transport::Nccl> joined = {};
};

// Of rank 0; elsewhere without content.
struct RankRun {
  Explanation explanation;  // an operation for each kernel
  Measurement measurement;
};

// Errors: as many ranks as the mesh has devices are wanted; acts_of()'s, run()'s, Ranks::exchange()'s. They are those
// of one rank: whoever has one abandons the others.
Result<RankRun> run(const Task& task, transport::Ranks& ranks, const RunOptions& options);

}  // namespace ridge::ranks
