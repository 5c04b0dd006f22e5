// What is assumed of a machine whose file does not say. A file of four numbers (two peaks, bandwidth, capacity) answers
// most questions; these answer the rest, each labelled: origin guessed, source "ridge's default". Peaks, bandwidths and
// capacities have no default: they are never guessed for somebody.
#pragma once

#include "ridge/machine/machine.h"

namespace ridge {

// The machine with numbers for cores, line_bytes, launch_s and tile_m, tile_n, tile_k, where it has none.
Machine with_defaults(Machine machine);

}  // namespace ridge
