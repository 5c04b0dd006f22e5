// Texts of metapipes under libFuzzer: any bytes are a metapipe or an error with words. Built with -DRIDGE_FUZZ=ON and
// clang (tests/fuzz/fuzz.cmake says how); its seeds are replayed in every build.
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/simulate/pipe_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto pipe = ridge::parse_pipe({reinterpret_cast<const char*>(data), size}, "fuzz");
  RIDGE_CHECK(pipe.ok() || !pipe.error().text().empty(), "an error without words");
  return 0;
}
