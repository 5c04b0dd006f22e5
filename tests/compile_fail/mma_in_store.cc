// says: mma: multiplies belong in compute; store has no stage to multiply
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void store(auto& at, const Globals& g, const State& acc) {
#ifdef BAD
    Stage s;
    State more;
    at.mma(more, s.a, transposed(s.b));
#endif
    TestKernel<>::store(at, g, acc);
  }
};
int main() { compile_cpu_kernel<Kernel>(); }
