#include "ridge/ops/rows/arithmetic_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void arithmetic(const ArithmeticRun& run) { run_arithmetic(run); }
void compiled_chain(const CompiledChain& run) { run_chain<FloatLanes>(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
