// Ours against the libraries on the same products, in one run. Every library lives in a process of its own, because
// idle thread pools spin and spoil each other's numbers; the parent lets them take turns, round after round, on the
// same shape and the same data, so that a drift of the clock meets all alike. Each result is checked against an fp64
// sum before and after it is timed. A ratio above 1 means that Ridge was faster.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/kernels/menu.h"

namespace ridge::measure {

// One row of a shapes file. op: "linear" is A[m,k]·B[n,k]ᵀ, "nn" A[m,k]·B[k,n], "tn" A[k,m]ᵀ·B[k,n], "tt"
// A[k,m]ᵀ·B[n,k]ᵀ.
struct ContestShape {
  std::string op;
  DType dtype = DType::f32;  // of both operands
  DType out = DType::f32;
  std::int64_t m = 0, n = 0, k = 0;
  kernels::MatmulProblem problem() const;  // contiguous operands
};

// Reads CSV with the columns op,dtype,m,n,k in any order, and optionally out (default f32). Errors name line and
// column.
Result<std::vector<ContestShape>> read_shapes(const std::string& path);

struct ContestOptions {
  int threads = 1;
  int rounds = 7;
  std::vector<std::string> libraries = {"openblas", "onednn"};  // beside ridge
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct ContestTime {
  std::string library;
  bool took_part = false;  // false: the library cannot do this product
  double median_s = 0, min_s = 0, max_s = 0;
  double max_error = 0;  // largest |got - ref| / (|A||B|) over the checked elements, before and after timing
};

struct ContestRow {
  ContestShape shape;
  std::vector<ContestTime> times = {};   // ridge first
  std::string best = {};                 // the fastest of the others; empty: none took part
  double ratio = 0;                      // its median over ours; 0: none took part
  double ratio_low = 0, ratio_high = 0;  // over the rounds
};

struct ContestClass {  // a group of rows and how it came out
  std::string name;
  std::size_t rows = 0;
  double geometric_mean = 0, worst = 0;
};

struct Contest {
  int threads = 1, rounds = 0;
  std::vector<std::string> libraries = {};            // as they describe themselves
  std::vector<std::string> removed_environment = {};  // variables that would have changed a baseline
  std::vector<ContestRow> rows = {};
  std::vector<ContestClass> classes() const;  // by dtype: all, M > 8, M <= 8
};

// Errors: a library is absent, a process died, a result is wrong (its element and both values).
Result<Contest> contest(const std::vector<ContestShape>& shapes, const ContestOptions& options);

}  // namespace ridge::measure
