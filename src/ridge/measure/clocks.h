// Clocks in Hz of the cores and of a CUDA device, as far as the system reports them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

std::optional<double> read_base_hz();     // guaranteed clock: cpufreq's base_frequency
std::optional<double> read_running_hz();  // current clock, mean over the cores: /proc/cpuinfo's "cpu MHz"
std::optional<double> parse_mean_hz(std::string_view cpuinfo);

// Reads clocks, power and throttle reasons of the first visible device from NVIDIA's management library. The library is
// loaded on first use; without it the result is nullopt.
struct DeviceClocks {
  double sm_hz = 0, max_sm_hz = 0, memory_hz = 0;
  double power_w = 0;
  std::vector<std::string> throttle_reasons;  // "power limit", "heat", …; empty if the clock is not throttled
};
std::optional<DeviceClocks> read_device_clocks();

// Decodes NVML's bit set of reasons; an idle clock is not reported.
std::vector<std::string> decode_throttle_reasons(unsigned long long bits);

}  // namespace ridge
