#include "ridge/ops/chain/map_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void map_text(const MapRun& run) { run_text(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
