// says: store: sums leave in store, when all stages have been added; compute only multiplies
#include "kernel.h"

struct Kernel : Words<> {
  static void compute(auto& at, State& acc, const Stage& s) {
    Words<>::compute(at, acc, s);
#ifdef BAD
    at.store(Globals{}.d, acc, at.row(), at.col());
#endif
  }
};
int main() { use<Kernel>(); }
