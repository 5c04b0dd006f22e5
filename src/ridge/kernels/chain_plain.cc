#include "ridge/kernels/chain_body.h"

namespace ridge::kernels {

void run_chain_plain(const ChainRun& run) { ChainRunner<FloatLanes>(run).go(); }

}  // namespace ridge::kernels
