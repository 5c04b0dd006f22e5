#include "ridge/ops/model.h"

#include <algorithm>

namespace ridge::ops {

Forecast streamed(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device) {
  Forecast out;
  out.plan.kernel = std::string(kernel);
  out.seconds = device.launch_s + std::max(bytes / device.bytes_per_s, instructions / device.lanes_per_s);
  out.spread = {0.7, 1, 1.6};
  out.traffic_bytes = out.memory_bytes = static_cast<std::int64_t>(bytes);
  return out;
}

}  // namespace ridge::ops
