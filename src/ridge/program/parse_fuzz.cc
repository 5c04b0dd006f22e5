// The parser under libFuzzer, which grows inputs towards code not yet reached. Built with -DRIDGE_FUZZ=ON and clang
// (tests/fuzz/fuzz.cmake says how); its seeds are replayed in every build.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ridge/base/check.h"
#include "ridge/program/testing/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string fault = ridge::testing::round_trip_fault({reinterpret_cast<const char*>(data), size});
  RIDGE_CHECK(fault.empty(), fault);
  return 0;
}
