// says: wait_for_product: products have finished before store; only compute waits for them
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void store(auto& at, const Globals& g, const State& acc) {
#ifdef BAD
    at.wait_for_product(acc);
#endif
    TestKernel<>::store(at, g, acc);
  }
};
int main() { compile_cpu_kernel<Kernel>(); }
