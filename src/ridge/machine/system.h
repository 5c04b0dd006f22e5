// What the operating system says about this CPU, and the machine that one may guess from it. A guess is for the first
// minute: `ridge probe` replaces it by measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/isa.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct CacheFacts {  // of one level, data or unified
  int level = 1;
  double bytes = 0;  // of one cache
  int sharers = 1;   // hardware threads that it serves
};

struct SystemFacts {
  int cores = 1;        // usable_cores() of base/cores.h
  double clock_hz = 0;  // 0: the system does not say
  std::string model;    // "AMD EPYC"; empty: the system does not say
  std::string vendor;   // "AuthenticAMD"
  int family = 0;
  Isa isa = Isa::plain;            // as the kernels detect it; parse_cpuinfo leaves it
  std::string flags;               // " fpu … avx2 … ", words with a space around each
  double last_level_bytes = 0;     // of the largest caches that the cores have, together; 0: the system does not say
  std::vector<CacheFacts> caches;  // from the core outwards; empty: the system does not say
  double memory_bytes = 0;
};

SystemFacts read_system();

// From the text of /proc/cpuinfo: model, vendor, family, flags, and the highest clock of its cores.
SystemFacts parse_cpuinfo(std::string_view cpuinfo);
// CPUs in a list of sysfs: "0-7,64-71" is 16.
int cores_in_list(std::string_view list);

// FLOP a cycle of one core in f32, and the sentence that says why. Every peak is this times clock times cores.
struct VectorWidth {
  int flop_per_cycle;
  std::string_view why;
};
VectorWidth vector_width(const SystemFacts& facts);

// Memory bandwidth is guessed as 20 GB/s for the first core and 5 GB/s for each further one: two cores 25 GB/s, 96
// cores 495 GB/s. `today` is the day that the numbers carry, YYYY-MM-DD.
Machine guess_cpu(const SystemFacts& facts, const std::string& today);

std::string today();  // YYYY-MM-DD, UTC

}  // namespace ridge
