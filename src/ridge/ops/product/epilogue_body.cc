#include "ridge/ops/product/epilogue_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void apply_epilogue(const tile::EpilogueTile& tile) { finish_tile<FloatLanes>(tile); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
