#include "ridge/kernels/arithmetic_body.h"

namespace ridge::kernels {

void arithmetic_avx512(const ArithmeticRun& run) { run_arithmetic(run); }

}  // namespace ridge::kernels
