// says: mma: multiplies belong in compute; load only requests tiles
#include "kernel.h"

struct Kernel : Words<> {
  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    Words<>::load(at, s, g, k);
#ifdef BAD
    State acc;
    at.mma(acc, s.a, transposed(s.b));
#endif
  }
};
int main() { use<Kernel>(); }
