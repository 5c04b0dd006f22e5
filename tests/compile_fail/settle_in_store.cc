// says: wait_for_product: products have finished before store; only compute waits for them
#include "kernel.h"

struct Kernel : Words<> {
  static void store(auto& at, const Globals& g, const State& acc) {
#ifdef BAD
    at.wait_for_product(acc);
#endif
    Words<>::store(at, g, acc);
  }
};
int main() { use_on_cpu<Kernel>(); }
