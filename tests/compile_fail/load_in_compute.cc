// says: load: tiles are loaded in load, one stage earlier; compute only multiplies
#include "kernel.h"

struct Kernel : Words<> {
  static void compute(auto& at, State& acc, const Stage& s) {
#ifdef BAD
    at.load(s.a, Globals{}.a, at.row(), Range{});
#endif
    Words<>::compute(at, acc, s);
  }
};
int main() { use<Kernel>(); }
