// What NVIDIA's management library says of the first visible device: clocks, power, and why it runs slower than it
// could. Loaded when asked for, by the name that every driver installs; where it is absent, nothing is said.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ridge {

struct DeviceClocks {
  double sm_hz = 0, most_sm_hz = 0, memory_hz = 0;
  double power_w = 0;
  std::vector<std::string> slowed_by;  // "power limit", "heat", …; empty: nothing holds the clock down
};
std::optional<DeviceClocks> device_clocks();

// From NVML's bit set of reasons; idling is none.
std::vector<std::string> slowing_reasons(unsigned long long bits);

}  // namespace ridge
