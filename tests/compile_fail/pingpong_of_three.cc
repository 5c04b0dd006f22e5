// says: ping-pong needs exactly two consumers
#include "kernel.h"

struct Kernel : TestKernel<> {
#ifdef BAD
  static constexpr int players = 3;
#else
  static constexpr int players = 2;
#endif
  static constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64, .consumers = players, .roles = Roles::pingpong};
};
int main() { (void)trace::record_program<Kernel>({}); }
