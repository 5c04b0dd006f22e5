// says: load: tiles are loaded in load, one stage earlier; compute only multiplies
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void compute(auto& at, State& acc, const Stage& s) {
#ifdef BAD
    at.load(s.a, Globals{}.a, at.row(), Range{});
#endif
    TestKernel<>::compute(at, acc, s);
  }
};
int main() { compile_kernel<Kernel>(); }
