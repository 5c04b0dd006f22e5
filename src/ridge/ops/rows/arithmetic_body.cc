#include "ridge/ops/rows/arithmetic_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void execute_arithmetic(const ArithmeticCall& run) { run_arithmetic(run); }
void run_compiled_chain(const CompiledChain& run) { run_chain<FloatLanes>(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
