// Times this project's kernels on this CPU; `ridge calibrate --on cpu` fits ops::cpu_formula() to the timings:
// products, products of few rows, chains and functions of rows, of sizes inside and beyond the caches.
#pragma once

#include <functional>
#include <string>

#include "ridge/measure/calibrate.h"

namespace ridge {

// Runs each kernel as `ridge run` does and keeps its minimum time, because other processes only add time. Takes one to
// two minutes. `progress` gets the fraction done (0..1) and the current program. Errors are those of `run_program`.
Result<LibraryTimings> time_cpu_kernels(const Machine& machine,
                                        const std::function<void(double, const std::string&)>& progress);

}  // namespace ridge
