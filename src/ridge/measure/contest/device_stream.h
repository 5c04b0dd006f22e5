// How near the device's chains and row kernels come to what its memory copies: each takes turns with a plain copy that
// moves as many bytes, both as graphs of a few launches over arrays that are many times its caches. ratio 0.97: the
// kernel moves its bytes at 0.97 of the copy's rate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/measure/device/nvml.h"
#include "ridge/measure/timer.h"

namespace ridge {

struct DeviceStreamCase {
  std::string kernel;        // affine, gelu, silu_gate, cos_16 (so often), softmax, rmsnorm
  DType dtype = DType::f32;  // of every array
  std::int64_t columns = 0;  // of rows; 0: a chain
  int reads() const { return kernel == "silu_gate" ? 2 : 1; }  // arrays; each writes one
  // Of the copy's rate, that a change may not fall below; none where arithmetic takes longer.
  std::optional<double> bar() const;
};
std::vector<DeviceStreamCase> device_stream_cases();

struct DeviceStreamOptions {
  std::int64_t elements = std::int64_t{1} << 28;
  int rounds = 9;
  std::string only = {};  // cases whose kernel has this name; empty: all
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct DeviceStreamRow {
  DeviceStreamCase what;
  double bytes = 0;                     // read and written by one call
  Statistics ours, copy;                // s, of so many bytes
  double ratio = 0, low = 0, high = 0;  // copy over ours: median and extremes of the rounds
  double error = 0, allowed = 0;        // largest relative error found, and what rounding explains
};

struct DeviceStream {
  std::string device, day;
  int driver = 0;
  std::string note = {};  // why kernels are interpreted, if they are
  std::int64_t elements = 0;
  int rounds = 0;
  std::optional<DeviceClocks> clocks = {};  // at the end
  std::vector<DeviceStreamRow> rows = {};
};

// Errors: no device, no memory, a wrong result (the element and both values), no case of that name.
Result<DeviceStream> device_stream(const DeviceStreamOptions& options);

}  // namespace ridge
