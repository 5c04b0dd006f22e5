// The machine model for one of several ranks on a machine, and their link, which no data sheet describes.
#pragma once

#include "ridge/machine/machine.h"
#include "ridge/transport/communicator.h"

namespace ridge::ranks {

// Returns the machine seen by one of `ranks` ranks with `threads` threads each. Threads in excess of the cores share
// the peaks, and all ranks share the memory bandwidth.
Machine machine_for_rank(Machine machine, int ranks, int threads);

// Makes the CUDA device of this rank current in this thread: local rank modulo the number of devices.
Status use_rank_device(const transport::Communicator& comm);

// Measures the link by f32 all-reduces of one number and of 4 MiB between all ranks. All ranks get rank 0's result.
Result<Link> measure_link(transport::Communicator& comm);

}  // namespace ridge::ranks
