// Reads the clocks from the system. A guest often sees only a nominal frequency or none; then the result is nullopt.
#include "ridge/measure/clocks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "ridge/base/file.h"

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

namespace {

// Constants and signatures are from the NVML API reference, "Device Queries".
constexpr int clock_sm = 1, clock_memory = 2;
using NvmlDevice = void*;

class Nvml {
 public:
  static const Nvml& instance() {
    static const Nvml library;
    return library;
  }
  bool is_available() const { return device_ != nullptr; }
  template <class... X> unsigned query_value(const char* name, unsigned fallback, X... x) const {
    unsigned value = 0;
    const auto f = reinterpret_cast<int (*)(NvmlDevice, X..., unsigned*)>(dlsym(library_, name));
    return f != nullptr && f(device_, x..., &value) == 0 ? value : fallback;
  }
  unsigned long long query_throttle_bits() const {
    unsigned long long bits = 0;
    using Query = int (*)(NvmlDevice, unsigned long long*);
    const auto f = reinterpret_cast<Query>(dlsym(library_, "nvmlDeviceGetCurrentClocksThrottleReasons"));
    return f != nullptr && f(device_, &bits) == 0 ? bits : 0;
  }

 private:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto start = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
    const auto by_index =
        reinterpret_cast<int (*)(unsigned, NvmlDevice*)>(dlsym(library_, "nvmlDeviceGetHandleByIndex_v2"));
    if (start == nullptr || by_index == nullptr || start() != 0) return;
    // NVML counts all devices of the machine, CUDA only those in CUDA_VISIBLE_DEVICES.
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const unsigned first = visible != nullptr ? static_cast<unsigned>(std::strtoul(visible, nullptr, 10)) : 0;
    if (by_index(first, &device_) != 0) device_ = nullptr;
  }
  void* library_ = nullptr;
  NvmlDevice device_ = nullptr;
};

}  // namespace

std::vector<std::string> decode_throttle_reasons(unsigned long long bits) {
  static constexpr struct {
    unsigned long long bit;
    std::string_view why;
  } reasons[] = {{0x02, "clock setting"}, {0x04, "power limit"},    {0x08, "hardware slowdown"},
                 {0x10, "sync boost"},    {0x20, "heat"},           {0x40, "heat"},
                 {0x80, "power brake"},   {0x100, "display clocks"}};
  std::vector<std::string> out;
  for (const auto& [bit, why] : reasons)
    if ((bits & bit) != 0 && (out.empty() || out.back() != why)) out.emplace_back(why);
  return out;
}

std::optional<DeviceClocks> read_device_clocks() {
  const Nvml& nvml = Nvml::instance();
  if (!nvml.is_available()) return std::nullopt;
  DeviceClocks out;
  out.sm_hz = 1e6 * nvml.query_value("nvmlDeviceGetClockInfo", 0, clock_sm);
  out.max_sm_hz = 1e6 * nvml.query_value("nvmlDeviceGetMaxClockInfo", 0, clock_sm);
  out.memory_hz = 1e6 * nvml.query_value("nvmlDeviceGetClockInfo", 0, clock_memory);
  out.power_w = 1e-3 * nvml.query_value("nvmlDeviceGetPowerUsage", 0);
  out.throttle_reasons = decode_throttle_reasons(nvml.query_throttle_bits());
  return out;
}

}  // namespace ridge
