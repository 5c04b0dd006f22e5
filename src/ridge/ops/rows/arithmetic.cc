#include "ridge/ops/rows/arithmetic.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void arithmetic(const ArithmeticRun& run) {
  tile::cpu::body_for_isa(plain::arithmetic, avx2::arithmetic, avx512::arithmetic)(run);
}
void compiled_chain(const CompiledChain& run) {
  tile::cpu::body_for_isa(plain::compiled_chain, avx2::compiled_chain, avx512::compiled_chain)(run);
}

}  // namespace ridge::ops
