// Properties of this CPU from the operating system, and a machine estimated from them, which is used until
// `ridge probe` replaces it by measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/isa.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct CacheProperties {  // a data or unified cache
  int level = 1;
  double bytes = 0;           // bytes per cache
  int threads_per_cache = 1;  // hardware threads that share it
};

struct SystemProperties {
  int cores = 1;        // result of `usable_cores`()
  double clock_hz = 0;  // 0 if unknown
  std::string model;    // "AMD EPYC"; "" if unknown
  std::string vendor;   // "AuthenticAMD"
  int family = 0;
  Isa isa = Isa::plain;                 // from `detected_isa`(); not set by `parse_cpuinfo`
  std::string flags;                    // " fpu … avx2 … ", each flag between spaces
  double last_level_bytes = 0;          // total of the last-level caches of the usable cores; 0 if unknown
  std::vector<CacheProperties> caches;  // ordered by level; empty if unknown
  double memory_bytes = 0;
};

SystemProperties read_system_properties();

// Parses the content of /proc/cpuinfo: model, vendor, family, flags and the highest clock of all cores.
SystemProperties parse_cpuinfo(std::string_view cpuinfo);
// Returns the number of CPUs in a sysfs list: 16 for "0-7,64-71".
int cores_in_list(std::string_view list);

// f32 FLOP per cycle and core, with the reason. Every peak is this times the clock times the cores.
struct VectorThroughput {
  int flop_per_cycle;
  std::string_view why;
};
VectorThroughput vector_throughput(const SystemProperties& properties);

// Returns an estimated machine. Memory bandwidth is 20 GB/s for the first core plus 5 GB/s for each other core: 25 GB/s
// for 2 cores, 495 GB/s for 96. `day` is the date of the numbers, YYYY-MM-DD.
Machine estimate_cpu_machine(const SystemProperties& properties, const std::string& day);

std::string today_utc();  // YYYY-MM-DD, UTC

}  // namespace ridge
