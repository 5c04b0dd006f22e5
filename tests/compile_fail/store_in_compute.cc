// says: store: sums are stored in store, after the last stage; compute only multiplies
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void compute(auto& at, State& acc, const Stage& s) {
    TestKernel<>::compute(at, acc, s);
#ifdef BAD
    at.store(Globals{}.d, acc, at.row(), at.col());
#endif
  }
};
int main() { compile_kernel<Kernel>(); }
