// Times concurrent threads by the CPU time of the slowest one, which other processes disturb less than wall time.
#pragma once

#include <algorithm>
#include <vector>

#include "ridge/base/timer.h"
#include "ridge/pool/peak.h"

namespace ridge {

// Returns the seconds of `calls` calls of part(worker) on each of `threads` threads, by the slowest thread.
template <class Part> double time_slowest_thread(int threads, int calls, const Part& part) {
  std::vector<double> seconds(threads);
  pool::run_concurrently(threads, [&](int worker) {
    const double start = thread_cpu_seconds();
    for (int i = 0; i < calls; ++i) part(worker);
    seconds[worker] = thread_cpu_seconds() - start;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace ridge
