// says: load: a view along rows is loaded at a row, one along columns at a column
#include "kernel.h"

struct Kernel : TestKernel<> {
  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
#ifdef BAD
    at.load(s.b, g.b, at.row(), k);
#else
    at.load(s.b, g.b, at.col(), k);
#endif
  }
};
int main() { compile_kernel<Kernel>(); }
