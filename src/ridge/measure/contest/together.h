// How the contests on a CPU time what several threads do at once: the time that the slowest of them was given. A busy
// neighbour lengthens it less than the time on the wall.
#pragma once

#include <algorithm>
#include <vector>

#include "ridge/measure/timer.h"
#include "ridge/pool/peak.h"

namespace ridge {

// Seconds of `calls` calls of part(worker) by each of so many threads.
template <class Part> double slowest_of(int threads, int calls, const Part& part) {
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  ops::run_together(threads, [&](int worker) {
    const double start = thread_seconds();
    for (int i = 0; i < calls; ++i) part(worker);
    seconds[static_cast<std::size_t>(worker)] = thread_seconds() - start;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace ridge
