// Fuzzer of the parser (libFuzzer). Built with -DRIDGE_FUZZ=ON and clang (see tests/fuzz/fuzz.cmake); every build
// replays its seeds.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ridge/base/check.h"
#include "ridge/program/testing/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string error = ridge::testing::round_trip_error({reinterpret_cast<const char*>(data), size});
  RIDGE_CHECK(error.empty(), error);
  return 0;
}
