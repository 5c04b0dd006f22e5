// says: a ring needs two slots or more: a slot is given back one stage late
#include "kernel.h"

struct Kernel : Words<> {
#ifdef BAD
  static constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64, .stages = 1};
#else
  static constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64, .stages = 2};
#endif
};
int main() { (void)trace::record<Kernel>({}); }
