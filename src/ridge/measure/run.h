// Runs a program on this CPU or on a CUDA device, times it and checks it. Inputs are seeded random normals (or .npy
// files) and outputs start as NaN. After one warm-up pass, passes over the whole program run until there are five and
// 0.2 s of them, with each operation timed separately; the medians are reported. device_steps.h describes the timing on
// a device, reference.h the check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/timeline.h"
#include "ridge/base/timer.h"
#include "ridge/measure/reference.h"
#include "ridge/plan/plan.h"
#include "ridge/roofline/prediction.h"
#include "ridge/run/run_options.h"

namespace ridge {

// Dependence of the time on the work: times at half, actual and double size of one dimension.
struct MeasuredBound {
  std::string dim;
  double half_s = 0, actual_s = 0, double_s = 0;
  double fixed_s = 0;                   // part of the time that does not depend on the size
  std::optional<Limiter> limiter = {};  // overhead if the fixed part exceeds half; else the roofline's limiter
};

struct OpMeasurement {
  Statistics time;                         // seconds
  std::optional<double> fraction_of_roof;  // time_lower / median; nullopt if no bound is known
  std::optional<double> predicted_s = {};  // the planner's expectation; nullopt for kernels without a model
  // Name of the cache that holds all tensors ("l3"); the roof is then the cache's, or absent if its rate was not
  // measured. Empty if the tensors are in memory.
  std::string cache = {};
  double share = 0;  // fraction of the program's wall time; on a device, of the operations' total
  // Largest |got - expected| / scale (reference.h); infinite for an unexpected NaN or infinity.
  double max_rel_error = 0;
  std::int64_t checked = 0, elements = 0;  // checked and all elements of the result
  // Checked results that lie outside their dtype's range or have no right digit (element_check.h); one sentence each.
  std::int64_t out_of_range = 0, lost_digits = 0;
  std::vector<std::string> warnings = {};
  std::vector<std::string> copies;                   // copies that the lowering added: "w[F, D] to [D, F] order"
  std::optional<MeasuredBound> measured_bound = {};  // measured on a device only
  std::string note = {};                             // "one block per row, which is slower: NVRTC was not found; …"
  std::vector<TuningResult> tuned = {};  // on a device: products' plans that are not simply the model's choice
};

struct ClockReadings {
  std::optional<double> base_hz;              // base clock by /proc/cpuinfo's model name or cpufreq
  std::optional<double> before_hz, after_hz;  // running clock as reported by the system, mean over the cores
  // On a device: the clock's limit, the power at the end, and what lowered the clock.
  std::optional<double> max_hz = {}, power_w = {};
  std::vector<std::string> throttle_reasons = {};
};

struct DeviceMeasurement {
  std::string name;  // "NVIDIA H200"
  int driver = 0;    // 13000 is version 13.0
  // Seconds of a pass launched kernel by kernel; `total` times a replayed graph.
  double eager_s = 0;
  double host_to_device_bytes_per_s = 0, device_to_host_bytes_per_s = 0;  // B/s from and to pinned memory
  std::int64_t input_bytes = 0, output_bytes = 0;                         // bytes of the program's inputs and outputs
};

// One rank's part of a pass.
struct RankTimes {
  int rank = 0;
  std::int64_t words_sent = 0;                      // elements that the rank sends
  double compute_s = 0, network_s = 0, wait_s = 0;  // medians; a rank waits for ranks that compute longer
};

struct RanksMeasurement {
  std::string transport;  // "shared memory", "Open MPI", "NCCL 2.28.9"
  // Device name of a rank ("NVIDIA H200"); empty on a CPU.
  std::string device = {};
  // On devices: for each product that overlaps communication, the prediction and the choice.
  std::vector<std::string> overlap_notes = {};
  std::vector<RankTimes> ranks;
  std::int64_t words_sent = 0;  // elements that all ranks send in a pass
  // Lower bound on the elements sent if each tensor is spread evenly and stored once.
  double min_words = 0;
  std::optional<double> predicted_s = {};          // predicted seconds of a pass on the network
  double measured_s = 0;                           // seconds of the slowest rank
  std::optional<double> predicted_compute_s = {};  // on devices: predicted seconds of rank 0's kernels in a pass
  std::string sharding_note = {};                  // chosen sharding; empty if the program specifies it
  std::string product_grid = {};                   // grid of a distributed product and its distance from the bound
  Timeline timeline = {};                          // last pass in ns, one row per rank
};

struct Measurement {
  // One entry per kernel of the plan's `fusion`, as in the explanation.
  std::vector<OpMeasurement> ops;
  std::vector<std::vector<std::string>> result_names = {};  // names of the results of each operation's statements
  OpMeasurement total;    // wall time of a pass, the largest error, the sum of `checked`
  double overhead_s = 0;  // wall time of a pass less the operations' time
  int threads = 0;
  std::string isa;
  std::uint64_t seed = 0;
  std::int64_t memory_bytes = 0;  // bytes of all buffers
  ClockReadings clocks;
  std::optional<DeviceMeasurement> device = {};  // nullopt for a run on the CPU
  std::optional<RanksMeasurement> ranks = {};    // nullopt for a run in one process
  std::optional<Error> mismatch;                 // first element beyond its error bound, of kind `mismatch`
};

// A plan and the explanation regrouped to one operation per kernel.
struct PlannedRun {
  Plan plan;
  Explanation explanation;
};
Result<PlannedRun> plan_run(const Program& program, const Explanation& explanation, const RunOptions& options);

// `explanation` must be of the same program, with the machine to compare to. Errors: a dimension without a value, an
// unsupported dtype, no device, not enough memory, an .npy file that does not fit. A mismatch is not an error: it is
// part of the result, and the report shows it.
Result<Measurement> run_program(const Program& program, const PlannedRun& planned, const RunOptions& options);
// Plans the program, then runs it.
Result<Measurement> run_program(const Program& program, const Explanation& explanation, const RunOptions& options);

// Median of samples with a distribution-free 95 % confidence interval: the order statistics 0.98 * sqrt(n) places from
// the middle, or the extremes for fewer than six samples.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int samples = 0;
};
MedianInterval compute_median_interval(std::vector<double> samples);

// Returns how far the gelu of a plan's kernel may be off on a device, as ops/fused/cuda.h and ops/gated/cuda.h state.
GeluTolerance gelu_tolerance(const Plan& plan, int group);

// Two programs on this CPU that alternate pass by pass, so that disturbances by the system affect both.
struct RunTask {
  const Program& program;
  const PlannedRun& planned;
};
struct PairedMeasurement {
  Measurement first, second;
  MedianInterval ratio;  // the second program's seconds over the first one's, per pair of passes
};
Result<PairedMeasurement> run_paired(const RunTask& first, const RunTask& second, const RunOptions& options);

// Computes from a run's samples the median time, the share of the total and the fraction of the roof of each operation,
// and for the program the wall time of a pass and the overhead between operations. Example: two passes of 10 and 12 ms
// whose operations take 4 and 5, then 4 and 7 ms give shares 8/22 and 12/22 and 1 ms of overhead per pass.
//
// Selects how the time between operations is computed. On a CPU each pass times its operations, so sums over all passes
// can be subtracted; medians may come from different passes. On a device operations are timed separately from the
// passes, so only medians are available and shares are fractions of the operations' total time.
enum class OverheadMethod { sums, medians };

// `samples` has the seconds of each of `explanation.ops`, `wall_seconds` those of each pass. Fills `ops`, the time of
// `total` and `overhead_s` of `out`.
void summarize_samples(const Explanation& explanation, const std::vector<std::vector<double>>& samples,
                       const std::vector<double>& wall_seconds, OverheadMethod method, Measurement& out);

}  // namespace ridge
