// Checks that a kernel's synchronisation is correct under every order of events. Every thread and every asynchronous
// operation has a vector clock of the events that it knows to have happened (Mattern 1989; used by race detectors since
// Djit). A wait merges the clocks of the events that it waited for. Two accesses to one cell, one of them a write, must
// be ordered by their clocks; otherwise they race, even if this run happened to order them. So nearly every error shows
// under every schedule; schedules are shuffled to find deadlocks and results that depend on the order.
//
// Proxies: the copy engine and the tensor cores access shared memory by another path than threads. They see writes of
// threads only after a proxy fence, so a second clock has the events before such a fence.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ridge/tile/trace/recorded_program.h"

namespace ridge::tile::trace {

// Runs the program once, in an order that `seed` shuffles. Returns an empty string if there is no error, else a
// sentence that names the kernel, the stage, the tile and the missing wait.
std::string check_schedule(const RecordedProgram& program, unsigned seed);

struct CheckResult {
  int schedules = 0, failed = 0;
  std::string first_error;                         // error of the first schedule that failed; empty if none did
  std::map<std::set<std::string>, int> gave_up{};  // number of schedules for each set of threads that gave up waiting
};
// Runs the program with the seeds 0 to `schedules` - 1.
CheckResult check_schedules(const RecordedProgram& program, int schedules = 1000);

}  // namespace ridge::tile::trace
