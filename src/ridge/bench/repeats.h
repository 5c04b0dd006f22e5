// Measures fusion (docs/performance/repeats.md): a cosine is applied r times to a vector, as one kernel and as r
// kernels, each compared with the plan's prediction. One kernel moves 8 bytes per f32 element whatever r is, so its
// time is constant until arithmetic dominates; r kernels move 8 bytes each. A cosine counts as 1 FLOP.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/nvml.h"
#include "ridge/plan/predict.h"

namespace ridge {

struct RepeatsOptions {
  bool cuda = false;
  int threads = 0;            // threads on a CPU; 0 selects every core that the process may use
  std::int64_t elements = 0;  // length of the vector; 0 selects 2^24, on a device 2^28
  int max_repeats = 0;        // largest r of 1, 2, 4, …; 0 selects 256, on a device 1024
  int rounds = 5;             // both variants run once per round
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct RepeatsTiming {
  Statistics time = {};     // seconds of all r applications
  Interval predicted = {};  // seconds, as `explain --plan` predicts; for r kernels r times one
  double bytes = 0;         // read and written
  double error = 0;         // largest relative error before or after the timing
};

struct RepeatsPoint {
  int repeats = 1;
  double flops = 0;  // one per cosine
  RepeatsTiming fused = {}, unfused = {};
};

struct RepeatsBenchmark {
  Machine machine = {};  // the machine of the prediction
  std::string day = {}, note = {};
  std::string kernel_isa = {};              // "avx2", "sm_90a"
  int threads = 0, driver = 0, rounds = 0;  // threads on a CPU, driver on a device
  std::int64_t elements = 0;
  double allowed_error = 0;
  std::optional<DeviceClocks> clocks = {};  // at the end
  std::vector<RepeatsPoint> points = {};
};

// Errors: no device, no memory, a machine without plans, a wrong result (the element and both values).
Result<RepeatsBenchmark> run_repeats_benchmark(const RepeatsOptions& options);

}  // namespace ridge
