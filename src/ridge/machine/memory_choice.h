// Replaces the memory that holds the tensors: another level of the machine, the memory at the other end of a link (the
// host's, over pcie), or a memory with a given rate.
//   with_memory(tpu_v5e, "vmem")             17.82 TB/s, 134 MB
//   with_memory(tpu_v5e, "pcie")             host memory at 15 GB/s, capacity unknown
//   with_memory(tpu_v5e, ByteRate{8.1e11})   memory with this rate
#pragma once

#include "ridge/machine/machine.h"

namespace ridge {

// Returns the machine with this memory first. Usage errors: unknown name, level without bandwidth, rate outside 1e-30
// to 1e30 B/s.
Result<Machine> with_memory(Machine machine, const LinkChoice& memory);

}  // namespace ridge
