// Traces of profilers in Chrome's JSON format, as torch.profiler writes them: kernels of devices, the calls that
// launched them, and operators of the host with the shapes of their operands. Format: "Trace Event Format", Google,
// 2016; the keys in "args" are those of PyTorch's Kineto (record_shapes=True).
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::profiler {

inline constexpr std::size_t max_events = 1 << 24;     // Kernels and operators that are kept, some GB
inline constexpr int max_depth = 64;                   // Nested arrays and objects
inline constexpr std::size_t max_signature = 1 << 12;  // Characters of an operator's name and shapes

// Name of an operator and what is known of its operands. Equal ones are stored once.
struct Signature {
  std::string name;      // "aten::mm"
  std::string shapes;    // "[[128,256],[256,64]]"; empty if not recorded
  std::string types;     // "[\"float\",\"float\"]"
  std::string concrete;  // Values of the other arguments, of operators whose work depends on them; else empty
  bool operator==(const Signature&) const = default;
  auto operator<=>(const Signature&) const = default;
};

// Call of an operator on the host.
struct HostOp {
  std::int64_t process = 0, thread = 0;
  double start_us = 0, duration_us = 0;
  int signature = 0;  // Index into `Trace::signatures`
};

// Kernel, copy or fill on a device.
struct DeviceActivity {
  std::int64_t device = 0, correlation = -1;  // -1 if unknown
  double start_us = 0, duration_us = 0;
  int name = 0;  // Index into `Trace::names`
};

// Call that launched device work.
struct Launch {
  std::int64_t correlation = -1, process = 0, thread = 0;
  double start_us = 0;
};

struct Trace {
  std::vector<Signature> signatures;
  std::vector<std::string> names;  // Names of kernels
  std::vector<HostOp> ops;
  std::vector<DeviceActivity> device_activities;
  std::vector<Launch> launches;
};

// Reads a trace event by event, so that the memory depends on the events kept and not on the size of the file. Errors:
// no JSON (with the byte), gzip, nested too deeply, too many events, no complete events (ph "X") of these kinds, a time
// that is no number or beyond 1e16 us.
Result<Trace> read_trace(std::istream& input);
// Reads a file, or standard input for "-". Errors: those of `read_trace`, with the path.
Result<Trace> read_trace_file(const std::string& path);

}  // namespace ridge::profiler
