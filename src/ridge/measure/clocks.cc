// Reads the clocks from the system. A guest often sees only a nominal frequency or none; then the result is nullopt.
#include <cstdlib>
#include <string>
#include <string_view>

#include "ridge/base/file.h"
#include "ridge/measure/clocks.h"

namespace ridge {

std::optional<double> parse_mean_hz(std::string_view cpuinfo) {
  constexpr std::string_view key = "cpu MHz";
  double sum = 0;
  int cores = 0;
  for (std::size_t at = cpuinfo.find(key); at != std::string_view::npos; at = cpuinfo.find(key, at + 1)) {
    const std::size_t colon = cpuinfo.find(':', at);
    if (colon == std::string_view::npos) break;
    const double mhz = std::strtod(std::string(cpuinfo.substr(colon + 1, 24)).c_str(), nullptr);
    if (!(mhz > 0)) continue;
    sum += mhz * 1e6;
    ++cores;
  }
  if (cores == 0) return std::nullopt;
  return sum / cores;
}

std::optional<double> read_running_hz() {
  const auto text = read_file("/proc/cpuinfo");
  return text ? parse_mean_hz(*text) : std::nullopt;
}

std::optional<double> read_base_hz() {
  const auto text = read_file("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency");
  const double khz = text ? std::strtod(text->c_str(), nullptr) : 0;
  if (!(khz > 0)) return std::nullopt;
  return khz * 1e3;
}

}  // namespace ridge
