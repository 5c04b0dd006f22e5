// libFuzzer target for .npy headers: any bytes are a header that survives writing and reading, or an error with a
// message. Built with -DRIDGE_FUZZ=ON and clang; every build replays the seeds (tests/fuzz).
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/run/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = ridge::parse_npy_header({reinterpret_cast<const char*>(data), size});
  if (!header) {
    RIDGE_CHECK(!header.error().to_string().empty(), "an error without a message");
    return 0;
  }
  RIDGE_CHECK(header->data_offset <= size, "data beyond the end");
  const auto again = ridge::parse_npy_header(ridge::make_npy_header(header->dtype, header->shape));
  RIDGE_CHECK(again.ok() && again->shape == header->shape && again->dtype == header->dtype, "a header that changes");
  return 0;
}
