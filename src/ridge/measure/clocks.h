// How fast the cores run, in Hz, as far as the system says.
#pragma once

#include <optional>
#include <string_view>

namespace ridge {

std::optional<double> base_hz();     // the guaranteed clock: cpufreq's base_frequency
std::optional<double> running_hz();  // now, the mean over the cores: /proc/cpuinfo's "cpu MHz"
std::optional<double> parse_mean_hz(std::string_view cpuinfo);

}  // namespace ridge
