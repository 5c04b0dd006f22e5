// Timings of this project's kernels on this CPU, which `ridge calibrate --on cpu` fits ops::cpu_form() to: products,
// products of few rows, chains and functions of rows, from what the caches hold to what they do not.
#pragma once

#include <functional>
#include <string>

#include "ridge/measure/calibrate.h"

namespace ridge {

// Each is run as `ridge run` does, and its least time counts: what else runs on the machine only adds to one. Takes a
// minute or two. `progress`: what is done (0..1) and what is being done. Errors: run()'s.
Result<LibraryTimings> time_cpu_kernels(const Machine& machine,
                                        const std::function<void(double, const std::string&)>& progress);

}  // namespace ridge
