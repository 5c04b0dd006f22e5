// The numbers of a library on a machine (ops/library/form.h), fitted to timings of its kernels. The sizes that make a
// kernel's site (a product's n and k) are fitted or kept apart together: half of the sites are fitted, the other half
// says what the fit is worth.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/library/form.h"
#include "ridge/ops/model.h"

namespace ridge {

struct TimedKernel {
  std::vector<double> sizes;  // in the order of the form's columns
  double seconds = 0;
};
struct LibraryTimings {
  const ops::LibraryForm* form = nullptr;
  std::vector<TimedKernel> kernels;
};
// A CSV with the columns of a form and a time: `column`, else the first whose name ends in us, us_best, us_default or
// time_s ("_s": seconds, others: microseconds). Optional: dtype; lines of another dtype than `dtype` and empty times
// are left out. Errors: no such column, too few lines of this dtype, what is no number.
Result<LibraryTimings> read_library_timings(std::string_view csv, const std::string& source, DType dtype,
                                            const std::string& column);

struct LibraryErrors {
  int kernels = 0;
  double mean = 0, median = 0, percentile_90 = 0;  // of |predicted / measured - 1|
  double inside = 0;                               // the share between low and high
};
struct JudgedKernel {
  TimedKernel timed;
  double predicted_s = 0;  // before the spread
};
struct Calibration {
  std::string machine, title;
  DType dtype = DType::bf16;
  const ops::LibraryForm* form = nullptr;
  std::vector<double> numbers;       // of form->numbers
  ops::Spread spread;                // of the fitted half: eight of ten measured over predicted times
  LibraryErrors fitted, apart;       // on the sites that were fitted, and on those kept apart
  LibraryErrors before, roofline;    // on those kept apart: by the numbers that the machine had; by the bare roofline
  std::vector<JudgedKernel> judged;  // those kept apart
};
// Errors: the machine's file lacks what predictions rest on; fewer than 10 kernels, or too few sites.
Result<Calibration> calibrate(const Machine& machine, DType dtype, const LibraryTimings& timings);

// The machine with these numbers; and the same as lines of [numbers], with their provenance.
Machine with_library(Machine machine, const Calibration& calibration, const std::string& source,
                     const std::string& day);
std::string machine_lines(const Calibration& calibration, const std::string& source, const std::string& day);
// A CSV of the kernels that were kept apart: their sizes, measured_s, low_s, predicted_s and high_s.
std::string judged_lines(const Calibration& calibration);

}  // namespace ridge
