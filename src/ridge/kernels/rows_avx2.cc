#include "ridge/kernels/rows_body.h"

namespace ridge::kernels {

void run_rows_avx2(const RowRun& run) { run_rows<FloatLanes>(run); }

}  // namespace ridge::kernels
