// says: mma: multiplies belong in compute; load only requests tiles
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    TestKernel<>::load(at, s, g, k);
#ifdef BAD
    State acc;
    at.mma(acc, s.a, transposed(s.b));
#endif
  }
};
int main() { compile_kernel<Kernel>(); }
