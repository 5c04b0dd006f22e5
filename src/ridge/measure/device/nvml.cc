#include "ridge/measure/device/nvml.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace ridge {
namespace {

// Constants and signatures are from the NVML API reference, "Device Queries".
constexpr int clock_sm = 1, clock_memory = 2;
using Device = void*;

class Nvml {
 public:
  static const Nvml& the() {
    static const Nvml library;
    return library;
  }
  bool there() const { return device_ != nullptr; }
  template <class... X> unsigned ask(const char* name, unsigned otherwise, X... x) const {
    unsigned value = 0;
    const auto f = reinterpret_cast<int (*)(Device, X..., unsigned*)>(dlsym(library_, name));
    return f != nullptr && f(device_, x..., &value) == 0 ? value : otherwise;
  }
  unsigned long long reasons() const {
    unsigned long long bits = 0;
    using Ask = int (*)(Device, unsigned long long*);
    const auto f = reinterpret_cast<Ask>(dlsym(library_, "nvmlDeviceGetCurrentClocksThrottleReasons"));
    return f != nullptr && f(device_, &bits) == 0 ? bits : 0;
  }

 private:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto start = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
    const auto by_index =
        reinterpret_cast<int (*)(unsigned, Device*)>(dlsym(library_, "nvmlDeviceGetHandleByIndex_v2"));
    if (start == nullptr || by_index == nullptr || start() != 0) return;
    // NVML counts all devices of the machine, CUDA only those in CUDA_VISIBLE_DEVICES.
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const unsigned first = visible != nullptr ? static_cast<unsigned>(std::strtoul(visible, nullptr, 10)) : 0;
    if (by_index(first, &device_) != 0) device_ = nullptr;
  }
  void* library_ = nullptr;
  Device device_ = nullptr;
};

}  // namespace

std::vector<std::string> slowing_reasons(unsigned long long bits) {
  static constexpr struct {
    unsigned long long bit;
    std::string_view why;
  } reasons[] = {{0x02, "clock setting"}, {0x04, "power limit"},    {0x08, "hardware slowdown"},
                 {0x10, "sync boost"},           {0x20, "heat"},           {0x40, "heat"},
                 {0x80, "power brake"},          {0x100, "display clocks"}};
  std::vector<std::string> out;
  for (const auto& [bit, why] : reasons)
    if ((bits & bit) != 0 && (out.empty() || out.back() != why)) out.emplace_back(why);
  return out;
}

std::optional<DeviceClocks> device_clocks() {
  const Nvml& nvml = Nvml::the();
  if (!nvml.there()) return std::nullopt;
  DeviceClocks out;
  out.sm_hz = 1e6 * nvml.ask("nvmlDeviceGetClockInfo", 0, clock_sm);
  out.most_sm_hz = 1e6 * nvml.ask("nvmlDeviceGetMaxClockInfo", 0, clock_sm);
  out.memory_hz = 1e6 * nvml.ask("nvmlDeviceGetClockInfo", 0, clock_memory);
  out.power_w = 1e-3 * nvml.ask("nvmlDeviceGetPowerUsage", 0);
  out.slowed_by = slowing_reasons(nvml.reasons());
  return out;
}

}  // namespace ridge
