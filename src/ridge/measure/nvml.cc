#include "ridge/measure/nvml.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace ridge {
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
