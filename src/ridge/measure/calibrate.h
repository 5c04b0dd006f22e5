// Fits the numbers of a library on a machine (ops/library/formula.h) to timings of its kernels. Kernels with the same
// site (a product's n and k) are either all fitted or all held out. Half of the sites are fitted; the other half gives
// the errors of the fit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/library/formula.h"
#include "ridge/ops/model.h"

namespace ridge {

struct TimedKernel {
  std::vector<double> sizes;  // values of LibraryFormula::columns, in this order
  double seconds = 0;
};
struct LibraryTimings {
  const ops::LibraryFormula* formula = nullptr;
  std::vector<TimedKernel> kernels;
};
// Reads a CSV with the columns of a formula and a time: `column`, else the first whose name ends in us, us_best,
// us_default or time_s ("_s": seconds, otherwise microseconds). An optional dtype column selects lines of `dtype`;
// lines without a time are skipped. Errors: no such column, too few lines of this dtype, a cell that is not a number.
Result<LibraryTimings> read_library_timings(std::string_view csv, const std::string& source, DType dtype,
                                            const std::string& column);

struct PredictionErrors {
  int kernels = 0;
  double mean = 0, median = 0, percentile_90 = 0;  // statistics of |predicted / measured - 1|
  double fraction_inside = 0;                      // fraction of kernels between low and high
};
struct HeldOutKernel {
  TimedKernel timed;
  double predicted_s = 0;  // without the spread
};
struct Calibration {
  std::string machine, title;
  DType dtype = DType::bf16;
  const ops::LibraryFormula* formula = nullptr;
  std::vector<double> numbers;                      // values of formula->numbers
  ops::PredictionSpread spread;                     // range of 80 % of measured / predicted in the fitted half
  PredictionErrors fitted_errors, held_out_errors;  // on the fitted and on the held-out sites
  // On the held-out sites: errors of the machine's previous numbers and of the plain roofline.
  PredictionErrors previous_errors, roofline_errors;
  std::vector<HeldOutKernel> held_out;  // kernels of the held-out sites
};
// Errors: the machine's file lacks numbers that predictions need; fewer than 10 kernels, or too few sites.
Result<Calibration> calibrate_library(const Machine& machine, DType dtype, const LibraryTimings& timings);

// Both write the fitted numbers with their provenance: into a machine, or as lines of a machine file's [numbers].
Machine with_calibration(Machine machine, const Calibration& calibration, const std::string& source,
                         const std::string& day);
std::string format_machine_lines(const Calibration& calibration, const std::string& source, const std::string& day);
// Returns a CSV of the held-out kernels: sizes, measured_s, low_s, predicted_s and high_s.
std::string format_held_out_csv(const Calibration& calibration);

// Times this project's kernels on this CPU; `ridge calibrate --on cpu` fits ops::cpu_formula() to the timings:
// products, products of few rows, chains and functions of rows, of sizes inside and beyond the caches. Runs each kernel
// as `ridge run` does and keeps its minimum time, because other processes only add time. Takes one to two minutes.
// `progress` gets the fraction done (0..1) and the current program. Errors are those of `run_program`.
Result<LibraryTimings> time_cpu_kernels(const Machine& machine,
                                        const std::function<void(double, const std::string&)>& progress);

}  // namespace ridge
