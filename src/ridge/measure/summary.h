// Computes from a run's samples the median time, the share of the total and the fraction of the roof of each operation,
// and for the program the wall time of a pass and the overhead between operations. Example: two passes of 10 and 12 ms
// whose operations take 4 and 5, then 4 and 7 ms give shares 8/22 and 12/22 and 1 ms of overhead per pass.
#pragma once

#include <vector>

#include "ridge/measure/run.h"

namespace ridge {

// Selects how the time between operations is computed. On a CPU each pass times its operations, so sums over all passes
// can be subtracted; medians may come from different passes. On a device operations are timed separately from the
// passes, so only medians are available and shares are fractions of the operations' total time.
enum class OverheadMethod { sums, medians };

// `samples` has the seconds of each of `explanation.ops`, `wall_seconds` those of each pass. Fills `ops`, the time of
// `total` and `overhead_s` of `out`.
void summarize_samples(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
                       const std::vector<double>& wall_seconds, OverheadMethod method, Measurement& out);

}  // namespace ridge
