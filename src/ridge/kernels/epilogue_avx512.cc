#include "ridge/kernels/epilogue_body.h"

namespace ridge::kernels {

void finish_avx512(const tile::Finishing& tile) { finish_tile<FloatLanes>(tile); }

}  // namespace ridge::kernels
