// Fuzzes the metapipe parser with libFuzzer: any bytes must give a metapipe or an error with a message. Built with
// -DRIDGE_FUZZ=ON and clang (tests/fuzz/fuzz.cmake); every build replays its seeds.
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/simulate/pipe_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto pipe = ridge::parse_pipe({reinterpret_cast<const char*>(data), size}, "fuzz");
  RIDGE_CHECK(pipe.ok() || !pipe.error().to_string().empty(), "an error without a message");
  return 0;
}
