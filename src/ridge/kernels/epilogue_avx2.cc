#include "ridge/kernels/epilogue_body.h"

namespace ridge::kernels {

void finish_avx2(const tile::Finishing& tile) { finish_tile<FloatLanes>(tile); }

}  // namespace ridge::kernels
