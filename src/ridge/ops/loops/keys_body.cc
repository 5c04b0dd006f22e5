// Keys of floats for selection and sorting. Most blocks have no key above the threshold; the compiler vectorises the
// comparison. Compiled once for each instruction set.
#include <cstring>

#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

// Returns a key that is ordered as the float; adding 0 turns -0 to +0. With all bits in `flip` the order is reversed.
[[gnu::always_inline]] inline std::uint32_t ordered_key(float x, std::uint32_t flip) {
  constexpr std::uint32_t sign = 0x80000000, nan_key = 1;
  const auto bits = __builtin_bit_cast(std::uint32_t, x + 0.0f);
  const std::uint32_t key = (bits & sign) != 0 ? ~bits : bits | sign;
  return x != x ? nan_key : key ^ flip;
}

inline void scan_block(KeyScan& scan, std::int64_t n) {
  std::uint32_t keys[key_scan_block];
  const float* const x = scan.values + scan.at;
  const std::uint32_t flip = scan.ascending ? ~std::uint32_t{0} : 0;
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    keys[i] = ordered_key(x[i], flip);
    found |= static_cast<std::uint32_t>(keys[i] > scan.threshold);
  }
  if (found != 0)
    for (std::int64_t i = 0; i < n; ++i) {
      const auto index = static_cast<std::uint32_t>(scan.first_index + scan.at + i);
      scan.keys[scan.count] = static_cast<RankedKey>(keys[i]) << 32 | ~index;
      scan.count += static_cast<std::int64_t>(keys[i] > scan.threshold);
    }
  scan.at += n;
}

}  // namespace

namespace RIDGE_BODY_ISA {
void scan_keys(KeyScan& scan) {
  while (scan.at + key_scan_block <= scan.elements && scan.count + key_scan_block <= scan.capacity)
    scan_block(scan, key_scan_block);
  if (scan.at + key_scan_block > scan.elements && scan.count + key_scan_block <= scan.capacity)
    scan_block(scan, scan.elements - scan.at);
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
