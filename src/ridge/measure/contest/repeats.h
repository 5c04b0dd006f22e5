// One kernel or many (docs/performance/repeats.md): a function of a vector applied r times, once as one kernel and once
// as r of them, each measured beside what the plan predicts. As one kernel an f32 element takes 8 bytes however large r
// is, so time is flat until arithmetic takes longer; as r kernels it takes 8 bytes every time. The function is a
// cosine, 1 FLOP as the note counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/device/nvml.h"
#include "ridge/measure/timer.h"
#include "ridge/plan/predict.h"

namespace ridge {

struct RepeatsOptions {
  bool cuda = false;
  int threads = 0;            // of the CPU; 0: every core that the process may use
  std::int64_t elements = 0;  // of the vector; 0: 2^24, on a device 2^28
  int most = 0;               // r = 1, 2, 4, … up to this; 0: 256, on a device 1024
  int rounds = 5;             // in each, both take their turn
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct RepeatsWay {
  Statistics time = {};     // s, of all r applications
  Interval predicted = {};  // s, as `explain --plan` says it (of r kernels: r times one)
  double bytes = 0;         // read and written
  double error = 0;         // largest relative error found, before or after the timing
};

struct RepeatsPoint {
  int repeats = 1;
  double flops = 0;  // 1 a cosine
  RepeatsWay fused = {}, unfused = {};
};

struct Repeats {
  Machine machine = {};  // whose numbers the prediction took on a CPU
  std::string day = {}, note = {};
  std::string kernels = {};                 // "avx2", "sm_90a"
  int threads = 0, driver = 0, rounds = 0;  // threads: of a CPU; driver: of a device
  std::int64_t elements = 0;
  double allowed_error = 0;
  std::optional<DeviceClocks> clocks = {};  // at the end
  std::vector<RepeatsPoint> points = {};
};

// Errors: no device, no memory, a machine for which no plan is made, a wrong result (the element and both values).
Result<Repeats> repeats(const RepeatsOptions& options);

}  // namespace ridge
