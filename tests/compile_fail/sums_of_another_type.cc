// says: mma: sums are f32 or int32
#include "kernel.h"

#ifdef BAD
using Sum = double;
#else
using Sum = float;
#endif
int main() { compile_cpu_kernel<TestKernel<SharedTile<float, 128, 64>, SharedTile<float, 128, 64>, Sum>>(); }
