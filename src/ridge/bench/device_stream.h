// Compares the device's chain and row kernels with the copy rate of its memory. Each kernel takes turns with a plain
// copy of as many bytes, both as graphs of a few launches over arrays many times larger than the caches. A ratio of
// 0.97 means that the kernel moves its bytes at 0.97 of the copy's rate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/measure/nvml.h"

namespace ridge {

struct DeviceStreamCase {
  std::string kernel;        // affine, gelu, silu_gate, cos_16 (16 cosines), softmax, rmsnorm
  DType dtype = DType::f32;  // dtype of every array
  std::int64_t columns = 0;  // length of the rows; 0 for a chain
  int arrays_read() const { return kernel == "silu_gate" ? 2 : 1; }  // arrays read; one is written
  // Fraction of the copy's rate that no change may fall below; nullopt if arithmetic takes longer.
  std::optional<double> min_allowed_ratio() const;
};
std::vector<DeviceStreamCase> device_stream_cases();

struct DeviceStreamOptions {
  std::int64_t elements = std::int64_t{1} << 28;
  int rounds = 9;
  std::string only_kernel = {};  // only cases with this kernel name; empty selects all
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct DeviceStreamRow {
  DeviceStreamCase stream_case;
  double bytes = 0;                                 // read and written by one call
  Statistics ridge_time, copy_time;                 // seconds for these bytes
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // copy over ours: median, minimum and maximum of the rounds
  double error = 0, allowed_error = 0;  // largest relative error found, and the error that rounding explains
};

struct DeviceStreamBenchmark {
  std::string device, day;
  int driver = 0;
  std::string note = {};  // reason why kernels are interpreted, if they are
  std::int64_t elements = 0;
  int rounds = 0;
  std::optional<DeviceClocks> clocks = {};  // after the last case
  std::vector<DeviceStreamRow> rows = {};
};

// Errors: no device, no memory, a wrong result (the element and both values), no case with that name.
Result<DeviceStreamBenchmark> run_device_stream_benchmark(const DeviceStreamOptions& options);

}  // namespace ridge
