#include "ridge/ops/chain/body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_chain(const ChainRunArgs& run) { ChainRunner<FloatLanes>(run).run_blocks(); }
void run_repeated_chain(const RepeatedChainArgs& run) { run_repeated<FloatLanes>(run); }
std::int64_t chain_group_elements() { return group_size<FloatLanes>; }

}  // namespace ridge::ops::RIDGE_BODY_ISA
