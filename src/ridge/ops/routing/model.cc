#include "ridge/ops/routing/model.h"

#include "ridge/ops/fitted.h"

namespace ridge::ops {

// Each row is read and written once in either direction. Routing to the groups also launches three kernels, two of
// which read all indices once per group.
Result<Forecast> forecast(const RoutingProblem& r, const DeviceNumbers& device) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double row_bytes = 2 * real(r.index_count) * real(r.width) * bytes_per_element(r.values),
               row_map_bytes = real(r.row_map_elements()) * 4;
  Forecast out = forecast_streamed("routed_rows", row_bytes + row_map_bytes, 0, device);
  if (!r.restores_order)
    out.seconds += 2 * device.launch_s +
                   2 * real(r.groups) * real(r.index_count) * dtype_bits(r.indices) / 8 / device.l2_bytes_per_s;
  return out;
}

}  // namespace ridge::ops
