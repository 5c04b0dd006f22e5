// Measures the two roofs of this CPU, so that predictions for it rest on what it does and not on what is printed on it:
// FLOP/s in f32 and bf16 from registers alone, and bytes a second from memory and from every cache that the system
// names, each for one core and for all. A cache is read by every core in its share of it, half of it at a time.
//
// `bandwidth` is the greater of reading and of copying with non-temporal stores, both counted in bytes that cross the
// memory bus: a roof is what no program goes over, and a pointwise kernel that writes past the caches is as fast as the
// copy. One Zen 4 core in a guest: f32 117 GFLOP/s and bf16 234 (32 and 64 a cycle at 3.66 GHz), read 31 GB/s, copy 47
// (an ordinary memcpy 25: a store into the cache first reads the line that it overwrites).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/system.h"
#include "ridge/measure/timer.h"

namespace ridge {

struct ProbeProgress {
  int done = 0, of = 0;   // measurements
  std::string_view what;  // the one that starts now: "f32, one core"; empty when all are done
};

struct ProbeOptions {
  int runs = 3;                  // of each quantity
  double seconds = 1.0;          // one run of one quantity, at least; all of them together stay under 60 s
  std::size_t buffer_bytes = 0;  // read and copied; 0: eight times the last-level cache, between 128 MiB and an
                                 // eighth of the memory; either way at most half of what is available
  bool write = true;             // the machine file
  std::function<bool(const ProbeProgress&)> progress = {};  // returns false to stop: nothing is written then
};

struct ProbeLine {
  std::string name;  // "f32", "bf16", "read", "copy", "l1 read"
  std::string unit;  // "FLOP/s", "B/s", "s"
  int cores = 1;     // of a device: its multiprocessors
  Statistics rate;
  std::string note;  // what makes the number doubtful ("the system gave the probe 62 % of the time: …"); else empty
};

struct ProbeReport {
  Machine machine;  // origin measured, the medians
  std::vector<ProbeLine> lines;
  std::string path;  // where the machine file was written; empty: it was not
};

// Where the machine file of "cpu" or "cuda" goes, found out before anything is measured: the folder is made.
Result<std::string> probe_path(const std::string& device);
// The line as a number of a machine file.
Sourced as_measured(const ProbeLine& line, std::string source);
// Of every report with a path.
Status write_machine(const ProbeReport& report);

// Bytes of the probe's buffer, in whole 2 MiB pages: several times what the caches hold, so that little of it is found
// there, and never so much that others are pushed out or a control group's limit ends the process.
std::size_t probe_buffer_bytes(const ProbeOptions& options, const SystemFacts& facts,
                               std::optional<std::int64_t> available);

// The same of a CUDA device: copying, reading and writing its memory, reading the L2, a launch eager and in a graph,
// products of 8192^3 in bf16 and f16 before and after the clock falls to the power limit, f32 multiply-adds, and the
// way from and to the host.
Result<ProbeReport> probe_cuda(const ProbeOptions& options = {});

// The machine file's content, from the lines that probe_cuda measures.
Machine device_machine_of(const std::vector<ProbeLine>& lines, const std::string& title, std::int64_t memory_bytes,
                          std::int64_t l2_bytes);

// Errors: no folder to write to (found before anything is measured), a full disk, memory for the buffers, stopped.
Result<ProbeReport> probe(const ProbeOptions& options = {});

}  // namespace ridge
