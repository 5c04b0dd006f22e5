// Which instruction set the kernels use, and the caches that they plan for. RIDGE_ISA=avx2 makes a CPU with AVX-512 run
// what a smaller one would. Source of the sizes: /sys/devices/system/cpu/cpu0/cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/isa.h"

namespace ridge::tile::cpu {

using ridge::detected_isa;
using ridge::Isa;
using ridge::name;

std::vector<Isa> available_isas();  // plain … what RIDGE_ISA asks for, else detected_isa()

struct IsaChoice {
  Isa isa = Isa::plain;
  std::string refusal = {};  // a sentence; empty: the override, if there is one, holds
};
// What RIDGE_ISA asks for (null or empty: nothing), where the CPU supports `detected`. Downward only.
IsaChoice choose_isa(Isa detected, const char* override_name);

// What the kernels use: RIDGE_ISA, read at the first call, else detected_isa(). A refused override leaves
// detected_isa() in force and a sentence here, which every kernel's refuse() passes on.
Isa isa();
std::optional<std::string> isa_refusal();

// Of a function that is compiled once for each instruction set (cmake/RidgeIsa.cmake) the one for isa().
template <class F> F& body_for_isa(F& plain, F& avx2, F& avx512) {
  if (isa() >= Isa::avx512) return avx512;
  if (isa() >= Isa::avx2) return avx2;
  return plain;
}

// For tests: from now on isa() is this one (at most detected_isa(), else it is left as it was and false comes back).
bool use_isa(Isa isa);

// Whether bf16 is multiplied in pairs where AVX512_BF16 is the most that a CPU has. Not on Intel's cores, of which one
// was measured (Emerald Rapids: vdpbf16ps starts in every second cycle, two multiply-adds of f32 in each, so that bf16
// that is widened as it is packed takes 0.55 of the time), unless the set was named, by RIDGE_ISA or use_isa.
bool multiplies_pairs();
void use_pairs(bool pairs);  // for tests: from now on

// Whether a loop that computes on what it reads from memory should ask for lines far ahead of its loads: on Intel's
// cores, of which one was measured (Emerald Rapids: compiled gelu of f32 .54 -> .91 of its roof). AMD's own
// prefetchers see enough (Zen 3: an affine chain of f32 falls from .98 to .82).
bool prefetches_far();

struct Caches {  // bytes
  std::int64_t l1d = 32 << 10, l2 = 512 << 10, l3 = 8 << 20;
  bool operator==(const Caches&) const = default;
};
Caches caches_under(const std::string& root);  // what sysfs does not tell keeps the default
const Caches& caches();                        // of CPU 0, read at the first call

// All that the schedule of a product follows from. Whoever plans hands it over, so that the plan of any CPU can be made
// and traced on any other; only running one needs the CPU.
struct Cpu {
  Isa isa = Isa::plain;
  bool pairs = true;  // multiplies_pairs
  Caches caches = {};
};
Cpu this_cpu();  // as its kernels run now

}  // namespace ridge::tile::cpu
