// Ours against cuBLASLt on the same products of a CUDA device, in one run. Operands are slices of a pool of normal
// random numbers, rotated so that consecutive launches touch 256 MB or more (cold L2); R launches sit in one CUDA
// graph; ours, cuBLASLt's first heuristic and the best of its first eight take turns, so that a clock that falls under
// load falls for all. Times are medians over rounds, the ratio is the median of the rounds' ratios: above 1 Ridge was
// faster. Right before and after: 4096 elements against f64, all against cuBLASLt.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/contest/contest_shape.h"
#include "ridge/measure/device/nvml.h"
#include "ridge/measure/timer.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

struct DeviceContestOptions {
  int rounds = 9;
  int tune = 0;  // how many of the model's best plans are timed as well; the fastest joins the turns
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct TunedPlan {
  ops::cuda::MatmulPlan plan;
  double seconds = 0;  // median of three replays
};

struct DeviceContestRow {
  ContestShape shape;
  Statistics ours = {}, first = {}, best = {};  // s a product; `first`, `best`: no runs where cuBLASLt cannot
  int best_heuristic = 0;
  double ratio = 0, ratio_first = 0;  // 0: cuBLASLt cannot
  ops::cuda::MatmulPlan plan = {};
  std::vector<TunedPlan> tuned = {};  // what was timed, fastest first
  double tuned_ratio = 0;             // as `ratio`, of the fastest; 0: not asked for
  // What NVML reads when the last turn has ended, in the middle of none: all took turns of some ms under that clock,
  // so it is the row's and not one's own. 0: no NVML.
  double sm_hz = 0;
  double flops_per_cycle = 0;  // of the device's matrix units in this dtype; 0: a device that the catalog lacks
  double per_cycle() const;    // ours: the share of flops_per_cycle in each cycle of sm_hz; 0: one of them is unknown
  bool right = false;
  double worst_error = 0;  // of the bound
};

struct DeviceContestClass {
  std::string name;
  std::size_t rows = 0, wrong = 0;
  double geometric_mean = 0, geometric_mean_first = 0, worst = 0, percentile_5 = 0, prediction_error = 0;
  double tuned = 0;      // geometric mean of tuned_ratio; 0: not asked for
  double per_cycle = 0;  // … of per_cycle, of the rows that know it; 0: none does
};

struct DeviceContest {
  std::string device;
  int driver = 0;
  std::size_t baseline_version = 0;
  int rounds = 0;
  std::vector<DeviceContestRow> rows = {};
  std::vector<ContestShape> passed_over = {};  // dtypes that ours does not multiply, sizes beyond the pool
  std::optional<DeviceClocks> before = {}, after = {};
  std::vector<DeviceContestClass> classes() const;
};

// What the matrix units of one core do at most in a cycle: peak / (cores * the clock behind the peaks). 4097 on an
// H200 in bf16. None: the machine lacks one of them.
std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype);

// Errors: no device, no cuBLASLt, no memory for the pools (10 GB). A wrong result is a row that says so.
Result<DeviceContest> device_contest(const std::vector<ContestShape>& shapes, const DeviceContestOptions& options);

}  // namespace ridge
