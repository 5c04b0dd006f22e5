#include "ridge/ops/rows/arithmetic.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void arithmetic(const ArithmeticRun& run) {
  tile::cpu::body_for_isa(plain::arithmetic, avx2::arithmetic, avx512::arithmetic)(run);
}

}  // namespace ridge::ops
