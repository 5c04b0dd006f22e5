#include "ridge/kernels/arithmetic.h"
#include "ridge/tile/target/cpu/isa.h"

namespace ridge::kernels {

void arithmetic(const ArithmeticRun& run) {
  switch (tile::cpu::isa()) {
#if defined(__x86_64__)
    case tile::cpu::Isa::amx:
    case tile::cpu::Isa::avx512_bf16:
    case tile::cpu::Isa::avx512: return arithmetic_avx512(run);
    case tile::cpu::Isa::avx2: return arithmetic_avx2(run);
#endif
    default: return arithmetic_plain(run);
  }
}

}  // namespace ridge::kernels
