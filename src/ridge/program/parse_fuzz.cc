// The parser under libFuzzer, which grows inputs towards code not yet reached. Not part of the default build:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Isrc src/ridge/program/parse_fuzz.cc
//           src/ridge/program/{bind,expression,extent,lines,parse,print,token,verify}.cc src/ridge/symbol/polynomial.cc
//           src/ridge/base/{check,error,text,utf8}.cc -lfmt -o parse_fuzz     (one line)
//   ./parse_fuzz -max_total_time=300 -max_len=400 examples/
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
