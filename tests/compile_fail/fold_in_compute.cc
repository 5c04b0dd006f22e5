// says: fold: columns are folded in store; compute has only map
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void compute(auto& at, State& acc, const Stage& s) {
    TestKernel<>::compute(at, acc, s);
#ifdef BAD
    at.fold(acc, [](float x, float y, Index, Index) { return x * y; });
#endif
  }
};
int main() { compile_cpu_kernel<Kernel>(); }
