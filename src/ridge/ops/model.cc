#include "ridge/ops/model.h"

#include <algorithm>

#include "ridge/ops/fitted.h"

namespace ridge::ops {

PredictionSpread spread_on_device(const DeviceNumbers& device, std::string_view kind) {
  const PredictionSpread &timed = find_spread(kind), &untimed = find_spread("untimed");
  if (device.timed) return timed;
  return {timed.low * untimed.low, timed.middle * untimed.middle, timed.high * untimed.high};
}

Forecast forecast_streamed(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device) {
  Forecast out;
  out.plan.kernel = std::string(kernel);
  const double lanes_per_s = device.multiprocessors * kernel_constants().lanes_per_multiprocessor * device.clock_hz;
  out.seconds = device.launch_s + std::max(bytes / device.memory_bytes_per_s, instructions / lanes_per_s);
  out.spread = spread_on_device(device, "streamed");
  out.count_bytes = [all = static_cast<std::int64_t>(bytes)] { return MovedBytes{all, all}; };
  return out;
}

}  // namespace ridge::ops
