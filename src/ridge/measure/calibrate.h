// The numbers of a library on a machine (ops/product/library.h), fitted to timings of its products. The sizes n and k
// of a product are its site; half of the sites are fitted, the other half says what the fit is worth.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/library.h"

namespace ridge {

struct TimedLibraryProduct {
  ops::LibraryProduct product;
  double seconds = 0;
};
// A CSV with the columns m, n, k and a time: `column`, else the first whose name ends in us, us_best, us_default or
// time_s ("_s": seconds, others: microseconds). Optional: batch, dtype; lines of another dtype than `dtype` and empty
// times are left out. Errors: no such column, no line of this dtype, what is no number.
Result<std::vector<TimedLibraryProduct>> read_library_timings(std::string_view csv, const std::string& source,
                                                              DType dtype, const std::string& column);

struct LibraryErrors {
  int products = 0;
  double mean = 0, median = 0, percentile_90 = 0;  // of |predicted / measured - 1|
  double inside = 0;                               // the share between low and high
};
struct Calibration {
  std::string machine, title;
  DType dtype = DType::bf16;
  ops::LibraryNumbers numbers;
  ops::Spread spread;              // of the fitted half: eight of ten measured over predicted times
  LibraryErrors fitted, apart;     // on the sites that were fitted, and on those kept apart
  LibraryErrors before, roofline;  // on those kept apart: by the numbers that the machine had; by the bare roofline
};
// Errors: the machine's file lacks what predictions rest on; fewer than 40 products.
Result<Calibration> calibrate(const Machine& machine, DType dtype, const std::vector<TimedLibraryProduct>& timings);

// The machine with these numbers; and the same as lines of [numbers], with their provenance.
Machine with_library(Machine machine, const Calibration& calibration, const std::string& source,
                     const std::string& day);
std::string machine_lines(const Calibration& calibration, const std::string& source, const std::string& day);

}  // namespace ridge
