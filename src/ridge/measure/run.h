// Runs a program on this CPU or a CUDA device, times it, and checks it. The protocol: inputs filled with seeded random
// normals (or read from .npy files), outputs poisoned with NaN, one warm-up pass, then passes over the whole program,
// each operation timed alone, until there are five and 0.2 s of them; the median counts. On a device: device_steps.h.
// Checking is reference.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/timeline.h"
#include "ridge/measure/timer.h"
#include "ridge/measure/tune_options.h"
#include "ridge/plan/plan.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct RunOptions {
  std::map<std::string, std::string> in = {};   // tensor -> .npy file; the others are random
  std::map<std::string, std::string> out = {};  // tensor -> .npy file to write
  std::uint64_t seed = 0;
  int threads = 0;  // 0: every core that the process may use
  bool cuda = false;
  bool fuse = true;    // false: one kernel a statement
  int passes = 0;      // exactly so many; 0: as many as passes.h says
  double seconds = 0;  // at least so long, 0: likewise
  // On a device: choices of plans that were measured and kept go before the model's; asked for candidates, measures.
  TuneOptions tune = {.stored = true};
  // Called now and then with what is done (0..1) and what is being done.
  std::function<void(double done, const std::string& doing)> progress = {};
};

// How the time moves with the size of the work: at half, once and double of one dimension.
struct Regime {
  std::string dim;
  double half_s = 0, once_s = 0, double_s = 0;
  double fixed_s = 0;                   // what does not move
  std::optional<Limiter> limiter = {};  // overhead where that is more than half; else the roofline's
};

struct OpMeasurement {
  Statistics time;                         // s
  std::optional<double> fraction_of_roof;  // time_lower / median; null where no bound is known
  // "l3": the cache that the program's tensors fit into, so that memory's rate is no bound and the roof is that of the
  // cache, or there is none. Empty: they are in memory.
  std::string cache = {};
  double share = 0;  // of the program's wall time; on a device, of the operations'
  double max_rel_error =
      0;  // largest |got - expected| / scale (reference.h); infinite: NaN or infinity where none is due
  std::int64_t checked = 0, elements = 0;  // of the result
  std::vector<std::string> copies;         // "w[F, D] to [D, F] order": copies that the lowering had to add
  std::optional<Regime> regime = {};       // measured on a device
  std::string note = {};                   // "interpreted, which is slower: NVRTC was not found; …"
  std::vector<Tuned> tuned = {};           // on a device: its products' plans, where they are not simply the model's
};

struct Clocks {
  std::optional<double> base_hz;              // what /proc/cpuinfo's model name or cpufreq says
  std::optional<double> before_hz, after_hz;  // the running clock, mean over cores, as the system reports it
  // Of a device: the clock's limit, the power drawn at the end, and what held the clock down.
  std::optional<double> most_hz = {}, power_w = {};
  std::vector<std::string> slowed_by = {};
};

struct DeviceNotes {
  std::string name;                                // "NVIDIA H200"
  int driver = 0;                                  // 13000: 13.0
  double eager_s = 0;                              // a pass launched kernel by kernel; measured_s is a graph's
  double host_to_device = 0, device_to_host = 0;   // B/s, through pinned memory
  std::int64_t input_bytes = 0, output_bytes = 0;  // of the program
};

// Of one of several ranks, a pass.
struct RankShare {
  int rank = 0;
  std::int64_t words = 0;                           // sent
  double compute_s = 0, network_s = 0, wait_s = 0;  // medians; it waits for those that compute longer
};

struct RanksNotes {
  std::string carrier;                      // "shared memory", "Open MPI", "NCCL 2.28.9"
  std::string device = {};                  // of a rank: "NVIDIA H200"; empty: a CPU
  std::vector<std::string> in_chunks = {};  // on devices: of each product beside a move, what was predicted and chosen
  std::vector<RankShare> ranks;
  std::int64_t words = 0;                  // that all of them send a pass
  double words_bound = 0;                  // that products must move where each tensor lies once, evenly spread
  std::optional<double> predicted_s = {};  // a pass on the network
  double measured_s = 0;                   // of the rank that takes longest
  std::optional<double> computing_s = {};  // on devices: rank 0's kernels in a pass, as their plans predict
  std::string written = {};                // how the program was split; empty: it says so itself
  std::string grid = {};                   // of a product that was spread: which, and how far from the bound
  Timeline timeline = {};                  // of the last pass, in ns: a lane for each rank
};

struct Measurement {
  std::vector<OpMeasurement> ops;                    // as the explanation's: of each kernel of `fusion`
  std::vector<std::vector<std::string>> names = {};  // of each operation: the results of its statements
  OpMeasurement total;                               // wall time of a pass; the errors' maximum; `checked` summed
  double overhead_s = 0;                             // of a pass: wall time less the operations'
  int threads = 0;
  std::string isa;
  std::uint64_t seed = 0;
  std::int64_t memory_bytes = 0;  // of all buffers
  Clocks clocks;
  std::optional<DeviceNotes> device = {};  // none: it ran on the CPU
  std::optional<RanksNotes> ranks = {};    // none: it ran in one process
  std::optional<Error> mismatch;           // the first element beyond its error bound: kind mismatch
};

// The plan's kernels, and the explanation with one operation for each of them.
struct RunPlan {
  Plan plan;
  Explanation explanation;
};
Result<RunPlan> plan_run(const Program& program, const Explanation& explanation, const RunOptions& options);

// `explanation` is of the same program, with the machine to compare to. Errors: a dimension without a value, a dtype
// that does not run, no device, not enough memory, an .npy that does not fit. A mismatch is a result, not an error: the
// report shows it.
Result<Measurement> run(const Program& program, const RunPlan& planned, const RunOptions& options);
// The same, planned first.
Result<Measurement> run(const Program& program, const Explanation& explanation, const RunOptions& options);

// The median of several numbers with the order statistics between which it lies in 95 of 100 cases, whatever their
// distribution: of n, those 0.98 * sqrt(n) places off the middle. Of fewer than six they are the ends.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int samples = 0;
};
MedianInterval interval_of_median(std::vector<double> samples);

// Two programs on this CPU in one run, a pass of each in turn: what the system does to one it does to the other.
struct RunTask {
  const Program& program;
  const RunPlan& planned;
};
struct Together {
  Measurement first, second;
  MedianInterval ratio;  // the second one's seconds over the first one's, turn by turn
};
Result<Together> run_together(const RunTask& first, const RunTask& second, const RunOptions& options);

}  // namespace ridge
