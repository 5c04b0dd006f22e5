// says: a ring needs at least two slots: one is filled while another is multiplied
#include "kernel.h"

struct Kernel : TestKernel<> {
#ifdef BAD
  static constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64, .stages = 1};
#else
  static constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64, .stages = 2};
#endif
};
int main() { (void)trace::record_program<Kernel>({}); }
