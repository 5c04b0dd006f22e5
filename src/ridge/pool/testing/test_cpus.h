// Test CPUs to plan for: each instruction set with the caches of a small core and with those of a large one.
#pragma once

#include <string>
#include <vector>

#include "ridge/pool/isa.h"

namespace ridge::pool {

inline std::vector<Cpu> all_test_cpus() {
  std::vector<Cpu> all;
  for (const CacheSizes& caches : {CacheSizes{}, CacheSizes{48 << 10, 2 << 20, 32 << 20}}) {
    for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
      all.push_back({isa, true, caches});
    all.push_back({Isa::avx512_bf16, false, caches});
  }
  return all;
}

inline std::string describe_cpu(const Cpu& cpu) {
  return std::string(isa_name(cpu.isa)) + (cpu.bf16_pairs ? "" : " without pairs") + ", " +
         std::to_string(cpu.caches.l2 >> 10) + " KiB of L2";
}

}  // namespace ridge::pool
