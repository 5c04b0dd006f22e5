// The instruction sets that kernels are written for, and which of them this CPU has. The kernels choose by it and the
// guess of a machine that was never probed rests on it, so that both speak of the same CPU. Source: CPUID and XGETBV
// (Intel SDM vol. 1, 13.3 and 15.2): an operating system that does not save the wide registers takes them away.
#pragma once

#include <cstdint>
#include <string_view>

namespace ridge {

// Ordered: each holds all of those before it.
enum class Isa : std::uint8_t {
  plain,
  avx2,         // AVX2, FMA, F16C
  avx512,       // F, BW, DQ, VL
  avx512_bf16,  // AVX512_BF16 and AVX512_VNNI
  amx,          // AMX_TILE, AMX_BF16 and AMX_INT8; used only after granted()
};

std::string_view name(Isa isa);  // "plain", "avx2", "avx512", "avx512_bf16", "amx"
Isa detected_isa();              // the most that CPU and operating system support

// Whether this process may use it. Asks the system where that takes its leave, for good and for all threads.
bool granted(Isa isa);

}  // namespace ridge
