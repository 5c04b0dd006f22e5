// Compares the measured times of a trace with the bounds of the operators that launched the work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/profiler/trace.h"
#include "ridge/roofline/results.h"

namespace ridge::profiler {

// Calls of an operator with equal shapes, or of a kernel that no known operator launched.
struct TraceRow {
  std::string name;        // "mm 128x256 * 256x64", or the kernel's name
  std::string kernel;      // Kernel that takes most of the time; empty on the host
  std::int64_t calls = 0;  // Calls of the operator, or of the kernel
  std::int64_t kernels = 0;
  double measured_s = 0;               // Sum over the calls
  std::optional<double> bound_s = {};  // The same of their roofline bounds, without launches; nullopt if unknown
  std::optional<Limiter> limiter = {};
  std::optional<Count> flops = {}, bytes = {};  // Sums over the calls
  // Returns the measured time beyond the bound; all of it if no bound is known.
  double lost_s() const { return measured_s - bound_s.value_or(0); }
};

struct TraceSummary {
  std::string machine;
  bool is_of_device = false;  // False if the trace has no kernels: then times are those of the host's operators
  std::int64_t devices = 0;
  double span_s = 0;           // From the first start to the last end, summed over devices; of the host without kernels
  double busy_s = 0;           // Union of the kernels' times, summed over devices; sum of self times on the host
  double measured_s = 0;       // Sum of all rows
  double known_s = 0;          // The part of it with a bound
  double bound_s = 0;          // Sum of the bounds
  std::vector<TraceRow> rows;  // The most time lost first
  bool has_shapes = false;     // True if some operator has recorded shapes
};

// Attributes each kernel to the operator that launched it: by its correlation to a launch, and by that launch's thread
// and time to the innermost operator with a known bound, else to the innermost one. Without kernels, rows are the
// operators with their self times. Errors: those of the machine, such as no bandwidth.
Result<TraceSummary> summarize_trace(const Trace& trace, const Machine& machine);

}  // namespace ridge::profiler
