#include "ridge/ops/rows/arithmetic.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void execute_arithmetic(const ArithmeticCall& run) {
  pool::select_for_isa(plain::execute_arithmetic, avx2::execute_arithmetic, avx512::execute_arithmetic)(run);
}
void run_compiled_chain(const CompiledChain& run) {
  pool::select_for_isa(plain::run_compiled_chain, avx2::run_compiled_chain, avx512::run_compiled_chain)(run);
}

}  // namespace ridge::ops
