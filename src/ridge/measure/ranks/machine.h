// The machine as one of several ranks on it sees it, and what joins them: a link whose numbers are measured before the
// run, since no data sheet has them.
#pragma once

#include "ridge/machine/machine.h"
#include "ridge/transport/ranks.h"

namespace ridge::ranks {

// `ranks` on one machine with so many threads each: more threads than cores share the peaks, and all share the memory.
Machine seen_by_a_rank(Machine machine, int ranks, int threads);

// Ranks on one machine take its CUDA devices in turn: this one's is its thread's from now on.
Status take_device(const transport::Ranks& ranks);

// By an all-reduce of f32 between all ranks, of one number and of some megabytes; every rank gets rank 0's numbers.
Result<Link> measured_link(transport::Ranks& ranks);

}  // namespace ridge::ranks
