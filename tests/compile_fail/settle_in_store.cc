// says: settle: in store all products are finished; only compute has to wait for its own
#include "kernel.h"

struct Kernel : Words<> {
  static void store(auto& at, const Globals& g, const State& acc) {
#ifdef BAD
    at.settle(acc);
#endif
    Words<>::store(at, g, acc);
  }
};
int main() { use_on_cpu<Kernel>(); }
