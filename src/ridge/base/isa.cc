#include "ridge/base/isa.h"

#include <algorithm>
#include <initializer_list>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ridge {
namespace {

#if defined(__x86_64__)
std::uint64_t read_xcr0() {  // XCR0: registers that the operating system saves
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

Isa detect_cpu_isa() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const auto has_all_bits = [](unsigned word, std::initializer_list<int> bits) {
    return std::all_of(bits.begin(), bits.end(), [word](int bit) { return (word >> bit & 1) != 0; });
  };
  if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all_bits(c, {12, 27, 28, 29}))
    return Isa::plain;  // FMA, OSXSAVE, AVX, F16C
  const std::uint64_t state = read_xcr0();
  if ((state & 0x6) != 0x6) return Isa::plain;                                               // xmm, ymm
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all_bits(b, {5})) return Isa::plain;  // AVX2
  if ((state & 0xe0) != 0xe0 || !has_all_bits(b, {16, 17, 30, 31})) return Isa::avx2;  // masks, zmm; F, DQ, BW, VL
  const bool vnni = has_all_bits(c, {11});
  const bool tiles =
      has_all_bits(d, {22, 24, 25}) && (state >> 17 & 3) == 3;  // AMX_BF16, AMX_TILE, AMX_INT8; TILECFG, TILEDATA
  const bool has_bf16 = a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && has_all_bits(a, {5});
  if (!vnni || !has_bf16) return Isa::avx512;
  return tiles ? Isa::amx : Isa::avx512_bf16;
}
#else
Isa detect_cpu_isa() { return Isa::plain; }
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
  return names[static_cast<int>(isa)];
}

Isa detected_isa() {
  static const Isa found = detect_cpu_isa();
  return found;
}

// Linux saves the 8 KiB of tile registers only for processes that request it (arch_prctl(2), kernel 5.16). Signal
// stacks must then be larger.
bool enable_isa(Isa isa) {
  if (isa > detected_isa()) return false;
  if (isa < Isa::amx) return true;
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;
  static const bool is_permitted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return is_permitted;
#else
  return false;
#endif
}

}  // namespace ridge
