// Where a program's tensors live, where that is not the machine's first memory: another level of its file, the memory
// behind one of its links (a host's, over pcie), or one of a stated rate.
//   with_memory(tpu_v5e, "vmem")             17.82 TB/s, 134 MB
//   with_memory(tpu_v5e, "pcie")             a host's memory at 15 GB/s, of a size that nobody says
//   with_memory(tpu_v5e, ByteRate{8.1e11})   a rate of one's own
#pragma once

#include "ridge/machine/machine.h"

namespace ridge {

// That memory as the first one. Errors, of kind usage: no such name, a level without a bandwidth, a rate outside 1e-30
// to 1e30 B/s.
Result<Machine> with_memory(Machine machine, const LinkChoice& memory);

}  // namespace ridge
