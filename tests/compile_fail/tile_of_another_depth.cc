// says: mma: [m, k] x [n, k] transposed -> [m, n]
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void compute(auto& at, State& acc, const Stage& s) {
#ifdef BAD
    const SharedTile<float, 128, 32> shallow;
    at.mma(acc, s.a, transposed(shallow));
#else
    at.mma(acc, s.a, transposed(s.b));
#endif
  }
};
int main() { compile_kernel<Kernel>(); }
