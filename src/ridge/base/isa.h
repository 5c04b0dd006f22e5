// Instruction sets of the CPU kernels and their detection. Kernel selection and the default CPU machine use the same
// result. Source: CPUID and XGETBV (Intel SDM vol. 1, 13.3 and 15.2): wide registers are usable only if the operating
// system saves them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ridge {

// Ordered: each includes all previous ones.
enum class Isa : std::uint8_t {
  plain,
  avx2,         // AVX2, FMA, F16C
  avx512,       // F, BW, DQ, VL
  avx512_bf16,  // AVX512_BF16 and AVX512_VNNI
  amx,          // AMX_TILE, AMX_BF16 and AMX_INT8; used only after `enable_isa`()
};

std::string_view isa_name(Isa isa);  // "plain", "avx2", "avx512", "avx512_bf16", "amx"
Isa detected_isa();                  // best one that CPU and operating system support

// Returns true if this process may use the instruction set. For AMX it requests Linux's permission, permanently and for
// all threads.
bool enable_isa(Isa isa);

}  // namespace ridge
