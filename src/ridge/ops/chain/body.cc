#include "ridge/ops/chain/body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_chain(const ChainRunArgs& run) { ChainRunner<FloatLanes>(run).run_blocks(); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
