#include "ridge/kernels/map_body.h"

namespace ridge::kernels {

void map_text_avx2(const MapRun& run) { run_text(run); }

}  // namespace ridge::kernels
