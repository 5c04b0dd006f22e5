// Ours against the libraries on the same products, in one run. Every library lives in a process of its own, because
// idle thread pools spin and spoil each other's numbers; the parent lets them take turns, round after round, on the
// same shape and the same data, so that a drift of the clock meets all alike. Each result is checked against an fp64
// sum before and after it is timed. A ratio above 1 means that Ridge was faster.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/contest/contest_shape.h"
#include "ridge/measure/timer.h"

namespace ridge {

struct ContestOptions {
  int threads = 1;
  int rounds = 7;
  std::vector<std::string> libraries = {"openblas", "onednn"};  // beside ridge
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct ContestTime {
  std::string library;
  bool took_part = false;  // false: the library cannot do this product
  Statistics time = {};    // seconds of one call
  double flop_per_s = 0;   // at the median
  double max_error = 0;    // largest |got - ref| / (|A||B|) over the checked elements, before and after timing
};

struct ContestRow {
  ContestShape shape;
  std::vector<ContestTime> times = {};          // ridge first
  std::string best = {};                        // the fastest of the others; empty: none took part
  double ratio = 0;                             // its median over ours; 0: none took part
  double ratio_low = 0, ratio_high = 0;         // over the rounds
  std::optional<double> fraction_of_peak = {};  // ridge's rate; nothing where the machine has no peak on record
};

struct ContestClass {  // a group of rows and how it came out
  std::string name;
  std::size_t rows = 0;
  double geometric_mean = 0, worst = 0;
};

struct Contest {
  int threads = 1, rounds = 0;
  std::string machine, machine_title;                 // whose peaks the fractions refer to
  std::vector<std::string> libraries = {};            // as they describe themselves
  std::vector<std::string> removed_environment = {};  // names of variables that would have changed a baseline
  std::vector<ContestRow> rows = {};
  std::vector<ContestClass> classes() const;  // by dtype, as they occur: all, M > 8, M <= 8
};

// `machine`: as seen with so many threads (machine/machine.h). Errors, before anything runs: a library is unknown or
// named twice, a product does not fit the memory in every process at once. Later: a library is absent, a process died,
// a result is wrong.
Result<Contest> contest(const std::vector<ContestShape>& shapes, const Machine& machine, const ContestOptions& options);

// The memory check alone, against `available` bytes.
Status check_memory(const std::vector<ContestShape>& shapes, std::size_t processes, std::int64_t available);

}  // namespace ridge
