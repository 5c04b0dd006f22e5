#include "ridge/ops/rows/arithmetic.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void run_roof_loop(const RoofLoopCall& run) {
  pool::select_for_isa(plain::run_roof_loop, avx2::run_roof_loop, avx512::run_roof_loop)(run);
}
void run_compiled_chain(const CompiledChain& run) {
  pool::select_for_isa(plain::run_compiled_chain, avx2::run_compiled_chain, avx512::run_compiled_chain)(run);
}

}  // namespace ridge::ops
