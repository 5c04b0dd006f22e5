// libFuzzer target for traces of profilers: any bytes are a summary, or an error with a message. Built with
// -DRIDGE_FUZZ=ON and clang; every build replays the seeds and mutates them (tests/fuzz).
#include <cstdint>
#include <sstream>

#include "ridge/base/check.h"
#include "ridge/machine/machine.h"
#include "ridge/profiler/summary.h"

namespace {

const ridge::Machine& fuzz_machine() {
  static const ridge::Machine machine = *ridge::find_machine("h200");
  return machine;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream input(std::string(reinterpret_cast<const char*>(data), size));
  const auto trace = ridge::profiler::read_trace(input);
  if (!trace) {
    RIDGE_CHECK(!trace.error().message.empty(), "an error without a message");
    return 0;
  }
  const auto summary = ridge::profiler::summarize_trace(*trace, fuzz_machine());
  RIDGE_CHECK(summary.ok(), summary ? "" : summary.error().message);
  for (const ridge::profiler::TraceRow& row : summary->rows)
    RIDGE_CHECK(row.calls > 0 && row.measured_s >= 0 && row.bound_s.value_or(0) >= 0, row.name);
  return 0;
}
