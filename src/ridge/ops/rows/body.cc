#include "ridge/ops/rows/body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_rows(const RowRun& run) { ops::run_rows<FloatLanes>(run); }
float reduce_row(const ReduceRun& run) { return ops::reduce_row<FloatLanes>(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
