// Core clocks in Hz, as far as the system reports them.
#pragma once

#include <optional>
#include <string_view>

namespace ridge {

std::optional<double> read_base_hz();     // guaranteed clock: cpufreq's base_frequency
std::optional<double> read_running_hz();  // current clock, mean over the cores: /proc/cpuinfo's "cpu MHz"
std::optional<double> parse_mean_hz(std::string_view cpuinfo);

}  // namespace ridge
