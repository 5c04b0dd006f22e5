// What this CPU can do and how much of it is ours: the instruction set, the cores, the caches. A container with a quota
// of 150 ms in every 100 ms may keep two cores of a 64-core host busy; a pool of 64 would be throttled. Sources: CPUID
// and XGETBV (Intel SDM vol. 1, 13.3 and 15.2), Linux Documentation/admin-guide/cgroup-v2.rst ("cpu.max") and
// scheduler/sched-bwc.rst, /sys/devices/system/cpu/cpu0/cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::tile::cpu {

// Ordered: each holds all of those before it.
enum class Isa : std::uint8_t {
  plain,
  avx2,         // AVX2, FMA, F16C
  avx512,       // F, BW, DQ, VL
  avx512_bf16,  // AVX512_BF16 and AVX512_VNNI
};

std::string_view name(Isa isa);     // "plain", "avx2", "avx512", "avx512_bf16"
Isa detected_isa();                 // the most that CPU and operating system support
std::vector<Isa> available_isas();  // plain … detected_isa()

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

// For tests: from now on isa() is this one (at most detected_isa(), else it is left as it was and false comes back).
bool use_isa(Isa isa);

// Cores that the process may keep busy: its affinity mask, cut to the cgroup's quota (v1 and v2, every ancestor counts;
// rounded up). At least 1. Read at the first call.
int usable_cores();
int cores_under_quota(const std::string& root, int cores);  // root: "" or a folder that stands for /
std::vector<int> affinity();                                // the CPUs of the calling thread's mask

struct Caches {  // bytes
  std::int64_t l1d = 32 << 10, l2 = 512 << 10, l3 = 8 << 20;
  bool operator==(const Caches&) const = default;
};
Caches caches_under(const std::string& root);  // what sysfs does not tell keeps the default
const Caches& caches();                        // of CPU 0, read at the first call

}  // namespace ridge::tile::cpu
