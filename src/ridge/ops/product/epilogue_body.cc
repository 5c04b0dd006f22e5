#include "ridge/ops/product/epilogue_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void apply_epilogue(const tile::EpilogueTile& tile) { apply_and_store_tile<FloatLanes>(tile); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
