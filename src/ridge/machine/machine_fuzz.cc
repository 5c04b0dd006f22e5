// Machine files under libFuzzer: any bytes are a machine that prints and reads back as itself, or an error with words.
// Built with -DRIDGE_FUZZ=ON and clang; its seeds are replayed in every build (tests/fuzz).
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/machine/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto machine = ridge::parse_machine({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!machine) {
    RIDGE_CHECK(!machine.error().text().empty(), "an error without words");
    return 0;
  }
  const auto again = ridge::parse_machine(ridge::print_machine(*machine), "printed");
  RIDGE_CHECK(again.ok(), again.ok() ? "" : again.error().text());
  RIDGE_CHECK(*again == *machine, "a machine that reads back as another one");
  return 0;
}
