#include "ridge/ops/rows/body.h"
#include "ridge/ops/rows/column_softmax_body.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_rows(const RowRun& run) { ops::run_rows<FloatLanes>(run); }
void run_column_softmax(const ColumnSoftmaxRun& run) { ops::run_column_softmax<FloatLanes>(run); }
float reduce_row(const ReduceRun& run) { return ops::reduce_row<FloatLanes>(run); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
