#include "ridge/ops/product/epilogue_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void finish(const tile::Finishing& tile) { finish_tile<FloatLanes>(tile); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
