#include "ridge/ops/chain/map_menu.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void map_text(const MapRun& run) { tile::cpu::body_for_isa(plain::map_text, avx2::map_text, avx512::map_text)(run); }

}  // namespace ridge::ops
