#include "ridge/ops/routing/model.h"

#include "ridge/ops/fitted.h"

namespace ridge::ops {

// Each row is read and written once in either direction. Routing to the groups also launches three kernels, two of
// which read all indices once per group.
Result<Forecast> forecast(const RoutedRows& r, const DeviceNumbers& device) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double rows = 2 * real(r.count) * real(r.width) * bits(r.values) / 8, places = real(r.places()) * 4;
  Forecast out = streamed("routed_rows", rows + places, 0, device);
  if (!r.back)
    out.seconds +=
        2 * device.launch_s + 2 * real(r.groups) * real(r.count) * bits(r.indices) / 8 / device.l2_bytes_per_s;
  return out;
}

}  // namespace ridge::ops
