// Fuzzes the parsers of SCALE-Sim's files with libFuzzer: any bytes must give a value or an error with a message. Built
// with -DRIDGE_FUZZ=ON and clang (tests/fuzz/fuzz.cmake); every build replays its seeds.
#include <cstdlib>

#include "ridge/simulate/scalesim_files.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layers = ridge::parse_topology(text, "fuzz");
  if (layers) {
    for (const ridge::TopologyLayer& layer : *layers)
      (void)ridge::simulate_systolic({16, 16, ridge::Dataflow::weight_stationary}, layer.product).ok();
  } else if (layers.error().to_string().empty()) {
    std::abort();
  }
  const auto config = ridge::parse_scalesim_config(text, "fuzz");
  if (!config && config.error().to_string().empty()) std::abort();
  return 0;
}
