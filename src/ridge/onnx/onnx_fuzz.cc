// libFuzzer target for ONNX files: any bytes are counts of operators, or an error with a message. Built with
// -DRIDGE_FUZZ=ON and clang; every build replays the seeds and mutates them (tests/fuzz).
#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/onnx/count.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = ridge::onnx::parse_model({reinterpret_cast<const char*>(data), size});
  if (!model) {
    RIDGE_CHECK(!model.error().message.empty(), "an error without a message");
    return 0;
  }
  const auto counts = ridge::onnx::count_model(*model, {{"batch", 3}});
  if (!counts) {
    RIDGE_CHECK(!counts.error().message.empty(), "an error without a message");
    return 0;
  }
  for (const ridge::OperatorWork& each : counts->operators)
    RIDGE_CHECK(each.calls > 0 && each.flops >= 0 && each.bytes_in >= 0 && each.bytes_out >= 0 &&
                    each.bytes_in + each.bytes_out > 0,
                each.name);
  return 0;
}
