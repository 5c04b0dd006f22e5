// Is a kernel's synchronisation right under every order of events, not only under the one that happened? Every thread
// and every asynchronous operation carries a vector clock: what it knows to have happened (Mattern 1989; as race
// detectors do since Djit). A wait joins the clocks of what it waited for. Two accesses of one cell of which one writes
// must be ordered by clocks: if they are not, they race, even where this run had them in a lucky order. So nearly every
// fault shows under every schedule; schedules are shuffled to find deadlocks and counts that depend on luck.
//
// Proxies: a copy engine and a multiplier see shared memory by another path than threads do. What threads wrote they
// see only past a proxy fence, so a second clock holds what has passed one.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {

// Runs the program once, in an order that `seed` shuffles. Empty: no fault. Else one sentence that names the kernel,
// the stage, the tile and the wait that is missing.
std::string check(const Program& program, unsigned seed);

struct CheckResult {
  int schedules = 0, faulty = 0;
  std::string first;                            // fault, by seed
  std::map<std::set<std::string>, int> left{};  // who had gone before all pieces had come, and in how many schedules
};
CheckResult check_schedules(const Program& program, int schedules = 1000);

}  // namespace ridge::tile::trace
