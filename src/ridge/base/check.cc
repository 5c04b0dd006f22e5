#include "ridge/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ridge {

void abort_failed_check(const char* file, int line, const char* condition, std::string_view values) {
  std::fprintf(stderr, "%s:%d: a bug in ridge: %s does not hold: %.*s\n", file, line, condition,
               static_cast<int>(values.size()), values.data());
  std::abort();
}

}  // namespace ridge
