#include "ridge/machine/defaults.h"

namespace ridge {
namespace {

struct DefaultNumber {
  const char* key;
  double value;
  const char* why;
};

constexpr DefaultNumber defaults[] = {
    {"cores", 1, "a single core is assumed"},
    {"line_bytes", 64, "a line of x86 and Arm servers; GPUs have 128"},
    {"launch_s", 3e-6,
     "between the 1.3 and 2.6 us of kernels inside a graph on H100 and H200, and the 5 us outside one"},
    {"tile_m", 16, "the smallest tile of matrix units since 2017"},
    {"tile_n", 16, "the smallest tile of matrix units since 2017"},
    {"tile_k", 16, "the smallest tile of matrix units since 2017"},
};

}  // namespace

Machine with_defaults(Machine machine) {
  for (const DefaultNumber& each : defaults) {
    SourcedValue number;
    number.value = each.value;
    number.source = "ridge's default";
    number.origin = Origin::guessed;
    number.note = each.why;
    machine.numbers.try_emplace(each.key, number);
  }
  return machine;
}

}  // namespace ridge
