#include "ridge/kernels/chain_body.h"

namespace ridge::kernels {

void run_chain_avx2(const ChainRun& run) { ChainRunner<FloatLanes>(run).go(); }

}  // namespace ridge::kernels
