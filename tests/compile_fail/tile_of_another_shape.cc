// says: load: a view is loaded into a tile of its own shape, or into as many rows of one
#include "kernel.h"

#ifdef BAD
using Left = SharedTile<float, 64, 64>;
#else
using Left = SharedTile<float, 128, 64>;
#endif
int main() { compile_kernel<TestKernel<Left>>(); }
