// What a run's samples come to: of each operation the median, its share and its fraction of the roof; of the program
// the wall time of a pass and what lies between the operations. Two passes of 10 and 12 ms, in which two operations
// take 4 and 5, then 4 and 7 ms: shares 8/22 and 12/22, and 1 ms of overhead a pass.
#pragma once

#include <vector>

#include "ridge/measure/run.h"

namespace ridge {

// How the time between operations is found. On a CPU each pass times its operations, so that the sums of all passes can
// be subtracted, where medians would belong to different passes. On a device operations are timed apart from the
// passes: medians are all that there is, and the shares are of the operations' time.
enum class Between { sums, medians };

// `samples`: seconds of each of explanation.ops; `walls`: of each pass. Fills ops, total's time and overhead_s of
// `out`.
void summarize(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
               const std::vector<double>& walls, Between between, Measurement& out);

}  // namespace ridge
