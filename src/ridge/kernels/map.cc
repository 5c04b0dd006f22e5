#include "ridge/kernels/map_menu.h"
#include "ridge/tile/target/cpu/isa.h"

namespace ridge::kernels {

void map_text(const MapRun& run) {
  switch (tile::cpu::isa()) {
#if defined(__x86_64__)
    case tile::cpu::Isa::amx:
    case tile::cpu::Isa::avx512_bf16:
    case tile::cpu::Isa::avx512: return map_text_avx512(run);
    case tile::cpu::Isa::avx2: return map_text_avx2(run);
#endif
    default: return map_text_plain(run);
  }
}

}  // namespace ridge::kernels
