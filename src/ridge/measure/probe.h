// Measures the roofs of this CPU, so that predictions rest on measured rates and not on data sheets: FLOP/s in f32 and
// bf16 from registers alone, and B/s from memory and from each cache that the system reports, each for one core and for
// all cores. For a cache, every core reads half of its share of it. It also measures what a call of each function takes
// (measure/function_timing.h).
//
// `bandwidth` is the larger of the read and the copy rate (non-temporal stores), both in bytes that cross the memory
// bus, because no program may exceed a roof and a pointwise kernel with non-temporal stores reaches the copy rate. One
// Zen 4 core in a guest: f32 117 GFLOP/s and bf16 234 (32 and 64 per cycle at 3.66 GHz), read 31 GB/s, copy 47 GB/s
// (plain memcpy 25, because a cached store first reads the line that it overwrites).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/system.h"

namespace ridge {

struct ProbeProgress {
  int done = 0, total = 0;    // number of measurements
  std::string_view quantity;  // quantity whose measurement starts now ("f32, one core"); empty at the end
};

struct ProbeOptions {
  int runs = 3;          // runs of each quantity
  double seconds = 1.0;  // minimum seconds of one run; all runs together stay below 60 s
  // Bytes that are read and copied. 0 selects eight times the last-level cache, at least 128 MiB and at most an eighth
  // of the memory. Either way it is at most half of the available memory.
  std::size_t buffer_bytes = 0;
  bool write = true;                                        // write the machine file
  std::function<bool(const ProbeProgress&)> progress = {};  // returns false to stop the probe; then no file is written
};

struct ProbeLine {
  std::string name;  // "f32", "bf16", "read", "copy", "l1 read", "cost_exp"
  std::string unit;  // "FLOP/s", "B/s", "s", "FLOP"
  int cores = 1;     // on a device: number of multiprocessors
  Statistics rate;
  std::string note;  // reason for doubt ("the system gave the probe 62 % of the time: …"); may be empty
};

struct ProbeReport {
  Machine machine;  // origin `measured`; rates are the largest of a CPU's runs, the medians of a device's
  std::vector<ProbeLine> lines;
  std::string path;  // path of the machine file; empty if none was written
};

// Returns the path of the machine file of "cpu" or "cuda" and creates its folder. Called before the measurement starts,
// so that an unwritable folder is reported early.
Result<std::string> prepare_machine_path(const std::string& device);
// Returns the line's median as a number of a machine file.
SourcedValue to_machine_number(const ProbeLine& line, std::string source);
// Writes the machine file. The report must have a path.
Status write_machine_file(const ProbeReport& report);

// Returns the bytes of the probe's buffer in whole 2 MiB pages: several times the size of the caches, so that few reads
// hit them, but small enough that no other program is swapped out and no control group's limit ends the process.
std::size_t choose_probe_buffer_bytes(const ProbeOptions& options, const SystemProperties& properties,
                                      std::optional<std::int64_t> available);

// Probes a CUDA device: copy, read and write rates of its memory, L2 reads, a launch (eager and in a graph), bf16 and
// f16 products of 8192^3 before and after the clock drops to the power limit, f32 multiply-adds, host transfers.
Result<ProbeReport> probe_cuda(const ProbeOptions& options = {});

// Makes the machine file's content from the lines that `probe_cuda` measures.
Machine make_device_machine(const std::vector<ProbeLine>& lines, const std::string& title, std::int64_t memory_bytes,
                            std::int64_t l2_bytes);

// Errors: no folder to write to (reported before the measurement), a full disk, no memory for the buffers, stopped.
Result<ProbeReport> probe_cpu(const ProbeOptions& options = {});

}  // namespace ridge
