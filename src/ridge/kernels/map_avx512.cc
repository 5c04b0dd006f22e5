#include "ridge/kernels/map_body.h"

namespace ridge::kernels {

void map_text_avx512(const MapRun& run) { run_text(run); }

}  // namespace ridge::kernels
