// Fuzzer of machine files (libFuzzer): any input is either an error with a message or a machine that is equal after
// printing and parsing. Built with -DRIDGE_FUZZ=ON and clang; every build replays its seeds (tests/fuzz).
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/machine/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto machine = ridge::parse_machine({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!machine) {
    RIDGE_CHECK(!machine.error().to_string().empty(), "an error without message");
    return 0;
  }
  const auto again = ridge::parse_machine(ridge::print_machine(*machine), "printed");
  RIDGE_CHECK(again.ok(), again.ok() ? "" : again.error().to_string());
  RIDGE_CHECK(*again == *machine, "the printed machine differs");
  return 0;
}
