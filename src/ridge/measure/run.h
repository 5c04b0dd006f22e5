// Runs a program on this CPU, times it, and checks it. The protocol: inputs filled with seeded random normals (or read
// from .npy files), outputs poisoned with NaN, one warm-up pass, then passes over the whole program, each operation
// timed alone, until there are five and 0.2 s of them; the median counts. Checking is reference.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/timer.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct RunOptions {
  std::map<std::string, std::string> in;   // tensor -> .npy file; the others are random
  std::map<std::string, std::string> out;  // tensor -> .npy file to write
  std::uint64_t seed = 0;
  int threads = 0;  // 0: every core that the process may use
  // Called now and then with what is done (0..1) and what is being done.
  std::function<void(double done, const std::string& doing)> progress = {};
};

struct OpMeasurement {
  Statistics time;                         // s
  std::optional<double> fraction_of_roof;  // time_lower / median; null where no bound is known
  double share = 0;                        // of the whole program's wall time
  double max_rel_error =
      0;  // largest |got - expected| / scale (reference.h); infinite: NaN or infinity where none is due
  std::int64_t checked = 0, elements = 0;  // of the result
  std::vector<std::string> copies;         // "w[F, D] to [D, F] order": copies that the lowering had to add
};

struct Clocks {
  std::optional<double> base_hz;              // what /proc/cpuinfo's model name or cpufreq says
  std::optional<double> before_hz, after_hz;  // the running clock, mean over cores, as the system reports it
};

struct Measurement {
  std::vector<OpMeasurement> ops;  // as Explanation::ops
  OpMeasurement total;             // wall time of a pass; the errors' maximum; `checked` summed
  double overhead_s = 0;           // median wall time less the operations' medians
  int threads = 0;
  std::string isa;
  std::uint64_t seed = 0;
  std::int64_t memory_bytes = 0;  // of all buffers
  Clocks clocks;
  std::optional<Error> mismatch;  // the first element beyond its error bound: kind mismatch
};

// `explanation` is of the same program, with the machine to compare to. Errors: a dimension without a value, a dtype
// that does not run, not enough memory, an .npy that does not fit. A mismatch is a result, not an error: the report
// shows it.
Result<Measurement> run(const Program& program, const Explanation& explanation, const RunOptions& options);

}  // namespace ridge
