// Default values of numbers that a machine file lacks. Four numbers (two peaks, bandwidth, capacity) suffice for most
// predictions; the others get defaults with origin "guessed" and source "ridge's default". Peaks, bandwidths and
// capacities have no defaults.
#pragma once

#include "ridge/machine/machine.h"

namespace ridge {

// Returns the machine with defaults for cores, line_bytes, launch_s, tile_m, tile_n and tile_k if it lacks them.
Machine with_defaults(Machine machine);

}  // namespace ridge
