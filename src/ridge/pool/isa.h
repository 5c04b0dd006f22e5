// The instruction set that the kernels use and the cache sizes that they plan for. RIDGE_ISA=avx2 makes a CPU with
// AVX-512 run the AVX2 code. The cache sizes are read from /sys/devices/system/cpu/cpu0/cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/isa.h"
#include "ridge/base/reason.h"

namespace ridge::pool {

using ridge::detected_isa;
using ridge::Isa;
using ridge::isa_name;

// The sets that this program has kernels for: all, or those of the CPU that built it (RIDGE_ISAS in
// cmake/RidgeIsa.cmake).
struct IsaRange {
  Isa lowest, highest;
};
IsaRange compiled_isas();

// Returns the compiled sets up to the one named by RIDGE_ISA, or up to detected_isa().
std::vector<Isa> available_isas();

struct IsaChoice {
  Isa isa = Isa::plain;
  Reason error = {};  // reason why RIDGE_ISA is ignored or no kernel can run
};
// Returns the set that `override_name` (RIDGE_ISA, may be null) selects. It must not exceed `detected`, and the program
// must have kernels for it.
IsaChoice choose_isa(Isa detected, const char* override_name, IsaRange compiled = compiled_isas());

// Returns the set that the kernels use: RIDGE_ISA, read at the first call, else detected_isa(). If RIDGE_ISA is
// invalid, the best set is used and `isa_override_error` returns the reason, which every kernel reports as
// unsupported.
Isa active_isa();
Reason isa_override_error();

// Returns the variant for active_isa() of a function that is compiled for each instruction set (cmake/RidgeIsa.cmake).
template <class F> F& select_for_isa(F& plain, F& avx2, F& avx512) {
  if (active_isa() >= Isa::avx512) return avx512;
  if (active_isa() >= Isa::avx2) return avx2;
  return plain;
}

// For tests: makes active_isa() return `isa`. Returns false and changes nothing if the CPU lacks that set.
bool set_active_isa(Isa isa);

// True if bf16 is multiplied in pairs (vdpbf16ps) on a CPU that has AVX512_BF16 but no AMX. False on Intel cores unless
// RIDGE_ISA or `set_active_isa` selected the set: on Emerald Rapids, the one measured, vdpbf16ps starts every second
// cycle but two f32 multiply-adds start in each, so that bf16 widened while it is packed takes 0.55 of the time.
bool multiplies_bf16_pairs();
void set_bf16_pairs(bool pairs);  // For tests: sets the result of `multiplies_bf16_pairs`.

// True if a loop that computes on data from memory should prefetch lines far before its loads. True on Intel cores
// (measured on Emerald Rapids: compiled gelu of f32 rises from 0.54 to 0.91 of its roof). AMD's hardware prefetchers
// suffice (Zen 3: with prefetches an affine chain of f32 falls from 0.98 to 0.82).
bool needs_far_prefetch();

struct CacheSizes {  // bytes
  std::int64_t l1d = 32 << 10, l2 = 512 << 10, l3 = 8 << 20;
  bool operator==(const CacheSizes&) const = default;
};
CacheSizes read_cache_sizes(const std::string& root);  // Returns defaults for sizes missing in sysfs.
const CacheSizes& cache_sizes();                       // Returns those of CPU 0, read at the first call.

// All properties of a CPU on which the schedule of a product depends. The planner passes them in, so that the plan for
// any CPU can be made and traced on any other; only running the plan needs that CPU.
struct Cpu {
  Isa isa = Isa::plain;
  bool bf16_pairs = true;  // result of `multiplies_bf16_pairs`
  CacheSizes caches = {};
};
Cpu this_cpu();  // Returns the properties that the kernels use now.

}  // namespace ridge::pool
