#include "ridge/ops/rows/arithmetic_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_roof_loop(const RoofLoopCall& run) { run_cached_loop(run); }
void run_compiled_chain(const CompiledChain& run) { run_chain<FloatLanes>(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
