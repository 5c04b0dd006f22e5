// Reads clocks, power and throttle reasons of the first visible device from NVIDIA's management library. The library is
// loaded on first use; without it the result is nullopt.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ridge {

struct DeviceClocks {
  double sm_hz = 0, max_sm_hz = 0, memory_hz = 0;
  double power_w = 0;
  std::vector<std::string> throttle_reasons;  // "power limit", "heat", …; empty if the clock is not throttled
};
std::optional<DeviceClocks> read_device_clocks();

// Decodes NVML's bit set of reasons; an idle clock is not reported.
std::vector<std::string> decode_throttle_reasons(unsigned long long bits);

}  // namespace ridge
